"""What a kit lets others do, asked of FLARE itself: its own readers of the kit's files decide here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.workspace import Workspace
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.private.fed.utils.fed_utils import require_signed_jobs
from nvflare.security.security import COMMAND_CATEGORIES, FLAuthorizer

from amity.engines.flare.kits import admin_kit, admin_user
from amity.engines.flare.kits.resources import CONTROLLER, EXECUTOR

KITS = {"server": "hub/server", "silo": "north/kit"}
STARTUP = {"server": "fed_server.json", "silo": "fed_client.json"}

# Who runs the consortium may do this; whatever FLARE knows beside it is refused.
AT_THE_SERVER = {
    *("submit_job", "abort", "abort_job", "delete_job", "delete_workspace", "configure_job_log"),
    *("check_status", "list_jobs", "get_job_meta", "show_scopes", "show_stats", "show_errors", "reset_errors"),
    *("sys_info", "report_resources", "report_env", "restart", "shutdown", "set_timeout", "call", "configure_site_log"),
    *("remove_client", "disable_client", "enable_client"),
}
AT_A_SILO = {
    *("submit_job", "abort", "abort_job", "delete_job", "delete_workspace"),
    *("check_status", "list_jobs", "get_job_meta", "show_scopes"),
}


def workspace(made: Path, kind: str) -> Workspace:
    return Workspace(root_dir=str(made / KITS[kind]), site_name=kind)


def allowed(made: Path, kind: str, role: str) -> set[str]:
    """The commands and rights that FLARE grants somebody of this role, by a kit's own policy."""
    policy = json.loads(Path(workspace(made, kind).get_authorization_file_path()).read_text())
    authorizer = FLAuthorizer("amity", policy)
    rights = {*COMMAND_CATEGORIES, "submit_job", "clone_job", "byoc", "server-predeployed-flwr"}
    person = Person("somebody", "org", role)
    return {right for right in rights if authorizer.authorize(AuthzContext(right, person))[0]}


@pytest.mark.parametrize(("kind", "rights"), [("server", AT_THE_SERVER), ("silo", AT_A_SILO)])
def test_what_the_coordinator_may_do(made: Path, kind: str, rights: set[str]) -> None:
    assert allowed(made, kind, "project_admin") == rights


@pytest.mark.parametrize("kind", KITS)
@pytest.mark.parametrize("role", ["", "lead", "org_admin", "member"])
def test_nobody_else_may_do_anything(made: Path, kind: str, role: str) -> None:
    assert allowed(made, kind, role) == set()


@pytest.mark.parametrize(("kind", "ours"), [("server", CONTROLLER), ("silo", EXECUTOR)])
def test_only_our_class_may_run(made: Path, kind: str, ours: str) -> None:
    authorizer, place = ComponentPathAuthorizer(), workspace(made, kind)
    authorizer.authorize_component_config({"path": ours}, workspace=place)
    theirs = {CONTROLLER, EXECUTOR} - {ours}
    for path in [*DEFAULT_CLASS_ALLOW_LIST, *theirs, "os.system", f"{ours}s", "amity.engines.flare.controller"]:
        with pytest.raises(UnsafeComponentError):
            authorizer.authorize_component_config({"path": path}, workspace=place)


@pytest.mark.parametrize("kind", KITS)
def test_jobs_must_be_signed(made: Path, kind: str) -> None:
    assert require_signed_jobs(workspace(made, kind), STARTUP[kind]) is True


def test_no_log_leaves_a_silo(made: Path) -> None:
    resources = json.loads((made / "north/kit/local/resources.json").read_text())
    assert resources["allow_log_streaming"] is False
    assert not any("log" in component["id"] for component in resources["components"])


@pytest.mark.parametrize("kind", KITS)
def test_connections_are_mutual_tls_on_one_port(made: Path, kind: str) -> None:
    startup = json.loads((made / KITS[kind] / "startup" / STARTUP[kind]).read_text())
    server = startup["servers"][0]
    owner = server if kind == "server" else startup["client"]
    assert owner["connection_security"] == "mtls"
    assert server["service"]["scheme"] == "grpc"
    if kind == "server":
        assert server["service"]["target"] == f"localhost:{server['admin_port']}"
    admin = json.loads((admin_kit(made / "hub") / "startup" / "fed_admin.json").read_text())["admin"]
    assert (admin["port"], admin["username"]) == (
        int(server["service"]["target"].split(":")[1]),
        admin_user(made / "hub"),
    )


@pytest.mark.parametrize("kind", KITS)
def test_no_kit_names_the_temp_folder(made: Path, kind: str) -> None:
    for file in (made / KITS[kind] / "local").iterdir():
        assert "/tmp" not in file.read_text()
