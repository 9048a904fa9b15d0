"""The configuration of a kit, as FLARE 2.9 reads it: what may run, who may ask for what, and what leaves.

FLARE's own kits are generous: a project administrator may ship code to every site, read text files of a silo's kit and
receive its logs, and jobs lie in the machine's temp folder. Ours name what is needed, and refuse the rest at the silo
itself, whoever asks.
"""

from __future__ import annotations

from typing import Any, TypedDict

Table = dict[str, Any]

ADMIN_ROLE = "project_admin"  # FLARE's word for who may submit runs

CONTROLLER = "amity.engines.flare.controller.AmityController"
EXECUTOR = "amity.engines.flare.executor.AmityExecutor"
SERVER_LAUNCHER = "amity.engines.flare.launchers.ServerJobLauncher"
SILO_LAUNCHER = "amity.engines.flare.launchers.SiloJobLauncher"

SERVER_IDENTITY = "server"  # the common name of the server's certificate; no silo may have it
SCHEME = "grpc"  # the one of FLARE's transports that compares the host with the server's certificate

ANSWERED = 180.0
"""Seconds that a silo waits for the first bytes of what it has asked for: the first MiB of a task at 50 kbit/s.

FLARE's own is 300, and a shorter `get_task_timeout` of a job changes nothing, for the larger one counts. A question
that was on its way when the server's process was killed is asked again as soon as the next one answers a sign of life.
"""


class Address(TypedDict):
    """Where the server of a consortium is."""

    consortium: str
    host: str
    port: int


def fed_server(at: Address) -> Table:
    """startup/fed_server.json: administrators come through the same port as silos."""
    server = {
        "name": at["consortium"],
        "service": {"target": f"{at['host']}:{at['port']}", "scheme": SCHEME},
        "admin_server": SERVER_IDENTITY,
        "admin_port": at["port"],
        "ssl_private_key": "server.key",
        "ssl_cert": "server.crt",
        "ssl_root_cert": "rootCA.pem",
        "connection_security": "mtls",
    }
    return {"format_version": 2, "require_signed_jobs": True, "servers": [server]}


def fed_client(at: Address, name: str) -> Table:
    """startup/fed_client.json: the silo's key stays where it was made, outside the kit."""
    server = {
        "name": at["consortium"],
        "service": {"target": f"{at['host']}:{at['port']}", "scheme": SCHEME},
        "identity": SERVER_IDENTITY,
    }
    client = {
        "ssl_private_key": "../../key.pem",
        "ssl_cert": "client.crt",
        "ssl_root_cert": "rootCA.pem",
        "fqsn": name,
        "is_leaf": True,
        "connection_security": "mtls",
    }
    return {"format_version": 2, "require_signed_jobs": True, "servers": [server], "client": client}


def fed_admin(at: Address, user: str) -> Table:
    """startup/fed_admin.json: how the coordinator's own commands reach the server."""
    admin = {
        "project_name": at["consortium"],
        "username": user,
        "server_identity": SERVER_IDENTITY,
        "scheme": SCHEME,
        "host": at["host"],
        "port": at["port"],
        "connection_security": "mtls",
        "uid_source": "cert",
        "with_file_transfer": True,
        "upload_dir": "transfer",
        "download_dir": "transfer",
        "client_key": "client.key",
        "client_cert": "client.crt",
        "ca_cert": "rootCA.pem",
    }
    return {"format_version": 1, "admin": admin}


def server_resources() -> Table:
    """local/resources.json of the server: jobs are kept inside the kit."""
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [CONTROLLER],
        "servers": [
            {"admin_storage": "transfer", "max_num_clients": 1000, "heart_beat_timeout": 600, "admin_timeout": 10.0}
        ],
        "components": [
            _component(
                "job_scheduler",
                "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                max_jobs=4,
                max_schedule_count=1_000_000,  # who is missing is our supervisor's to decide
                min_schedule_interval=1.0,
                max_schedule_interval=10.0,
            ),
            _component(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root="jobs",
                job_store_id="job_store",
            ),
            _component("job_store", "amity.engines.flare.kits.storage.KitStorage"),
            _component("process_launcher", SERVER_LAUNCHER),
        ],
    }


def silo_resources() -> Table:
    """local/resources.json of a silo: one class may run, and no log leaves."""
    managers = "nvflare.app_common.resource_managers.passthrough_resource_manager.PassthroughResourceManager"
    consumers = "nvflare.app_common.resource_consumers.passthrough_resource_consumer.PassthroughResourceConsumer"
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR],
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip", "communication_timeout": ANSWERED},
        "components": [
            _component("resource_manager", managers),
            _component("resource_consumer", consumers),
            _component("process_launcher", SILO_LAUNCHER),
        ],
    }


def admin_resources() -> Table:
    """local/resources.json of the coordinator."""
    admin = {"idle_timeout": 900.0, "login_timeout": 10.0, "with_debug": False, "authenticate_msg_timeout": 2.0}
    return {"format_version": 1, "admin": {**admin, "prompt": "> "}}


def server_authorization() -> Table:
    """local/authorization.json of the server: runs are submitted and stopped, nobody ships code or reads files."""
    rights = {"submit_job": "any", "manage_job": "any", "view": "any", "operate": "any", "download_job": "none"}
    return _authorization({**rights, **_REFUSED})


def silo_authorization() -> Table:
    """local/authorization.json of a silo: the hub sees whether a job runs and stops it, and nothing else.

    Only the silo's own people start, stop and inspect its process.
    """
    rights = {"submit_job": "any", "manage_job": "any", "view": "any", "operate": "none", "download_job": "none"}
    kept_here = ("show_errors", "show_stats", "reset_errors", "configure_job_log")
    return _authorization({**rights, **dict.fromkeys(kept_here, "none"), **_REFUSED})


_REFUSED = dict.fromkeys(("clone_job", "shell_commands", "byoc", "server-predeployed-flwr"), "none")


def _authorization(rights: dict[str, str]) -> Table:
    return {"format_version": "1.0", "permissions": {ADMIN_ROLE: rights}}


def _component(identifier: str, path: str, **arguments: Any) -> Table:
    return {"id": identifier, "path": path, "args": arguments}


def log_config() -> Table:
    """local/log_config.json: to standard output, and to files of the kit that are bounded."""
    file = {"class": "logging.handlers.RotatingFileHandler", "formatter": "plain", "mode": "a"}
    bounded = {"maxBytes": 20 * 2**20, "backupCount": 10}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {
                "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
                "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
            }
        },
        "handlers": {
            "consoleHandler": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stdout"},
            "logFileHandler": {**file, **bounded, "level": "DEBUG", "filename": "log.txt"},
            "errorFileHandler": {**file, **bounded, "level": "ERROR", "filename": "error_log.txt"},
        },
        "loggers": {"root": {"level": "INFO", "handlers": ["consoleHandler", "logFileHandler", "errorFileHandler"]}},
    }
