"""Run contracts: one text and one hash, nothing else read, and signatures that hold for nobody but who may sign."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st
from signed_contracts import CONTRACT, NOW, Holder, certified, contracts, with_run

from amity.errors import InputError
from amity.federation.run_contract import DataForm, Limits, RefusedContract, RunContract
from amity.federation.signed import LONGEST, Signed, from_json, sign, to_json, verify

ROOT = certified("north")
ADMIN = certified("ada@north", ROOT, role="project_admin")
SIGNED = to_json(sign(CONTRACT, ADMIN.key_pem, ADMIN.pem, NOW))


@given(contract=contracts())
def test_a_contract_reads_back_as_it_was(contract: RunContract) -> None:
    signed = Signed(contract, "c2lnbmVk", "one\ntwo\n", "today")
    assert from_json(to_json(signed)) == signed
    assert from_json(to_json(signed)).contract.hash() == contract.hash()


@given(one=contracts(), two=contracts())
def test_the_hash_is_of_the_content(one: RunContract, two: RunContract) -> None:
    assert (one.canonical() == two.canonical()) == (one.hash() == two.hash())
    assert replace(one, name="x" + one.name).hash() != one.hash()


def test_order_and_blanks_mean_nothing() -> None:
    document = json.loads(SIGNED)
    turned = json.dumps({key: document[key] for key in reversed(document)}, indent=4)
    assert verify(turned, ROOT.pem, NOW) == verify(SIGNED, ROOT.pem, NOW)
    run = dict(reversed(list(CONTRACT.run.items())))
    assert replace(CONTRACT, run=run).hash() == CONTRACT.hash()


def test_its_run_is_there() -> None:
    assert CONTRACT.options.method == "fedamp" and CONTRACT.options.settings == {"sigma": 50.0}
    assert CONTRACT.data.classes == 2 and DataForm((1,), None).classes == 0


def changed(*path: str | int, to: Any = None, drop: bool = False) -> str:
    """The signed contract with one thing changed or left out."""
    document = json.loads(SIGNED)
    inside = document
    for step in path[:-1]:
        inside = inside[step]
    if drop:
        del inside[path[-1]]
    else:
        inside[path[-1]] = to
    return json.dumps(document)


@pytest.mark.parametrize("key", [field.name for field in fields(RunContract)])
def test_missing_and_unknown_keys_are_refused(key: str) -> None:
    with pytest.raises(RefusedContract, match=f"the contract lacks {key}: ask for it anew"):
        from_json(changed("contract", key, drop=True))
    with pytest.raises(RefusedContract, match=f"the contract has the unknown {key}s"):
        from_json(changed("contract", f"{key}s", to=1))
    with pytest.raises(RefusedContract):
        from_json(changed("contract", key, to=True))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (changed("form", to=2), "it is of form 2, known is 1"),
        (changed("form", drop=True), "it lacks form"),
        (changed("more", to=2), "it has the unknown more"),
        (changed("signature", to=None), "its signature is no text"),
        (changed("certificate", to="text"), "certificate is no list"),
        (changed("contract", to=[]), "the contract is no table"),
        (changed("contract", "quorum", to=2.0), "quorum is no whole number"),
        (changed("contract", "quorum", to=4), "quorum is 1 to 3"),
        (changed("contract", "quorum", to=0), "quorum is 1 to 3"),
        (changed("contract", "policy", to="hope"), "policy is wait or quorum"),
        (changed("contract", "wire", to="int8"), "wire is float32, float16 or bfloat16"),
        (changed("contract", "least_rounds", to=9), "least_rounds is 0 to 8"),
        (changed("contract", "invited", to=["a", "a"]), "invited names 'a' twice"),
        (changed("contract", "invited", 0, to="../up"), "a silo's name is letters"),
        (changed("contract", "name", to="a/b"), "a run's name is letters"),
        (changed("contract", "name", to="a\u202eb"), "letters that can be seen"),
        (changed("contract", "consortium", to="\x1b[2J"), "letters that can be seen"),
        (changed("contract", "consortium", to=""), "a consortium's name has 1 to 80 letters"),
        (changed("contract", "layout", to="no hash"), "layout is a hash"),
        (changed("contract", "data", "shape", to=[]), "shape is a list of whole numbers from 1"),
        (changed("contract", "data", "shape", to=[4]), r"shape is \[3\], the number of features"),
        (changed("contract", "data", "labels", to=["one"]), "at least 2 classes"),
        (changed("contract", "limits", "turn", to=0), "limits are at least 1"),
        (changed("contract", "limits", "turn", drop=True), "limits lacks turn"),
        (changed("contract", "leaves", 0, "kind", to="example"), "a tensor, a metric or a count"),
        (changed("contract", "leaves", 0, "bytes", to=-1), "a tensor, a metric or a count"),
        (changed("contract", "leaves", 0, "more", to=1), "what leaves has the unknown more"),
        (changed("contract", "run", "data", to="folder:/etc"), "each silo names its own data in silo.toml"),
        (changed("contract", "run", "init_from", to="/etc/passwd"), "no run names a file on somebody's machine"),
        (changed("contract", "run", "method", to="pooled"), "pooled needs all data in one place"),
        (changed("contract", "run", "model", to="os:system('ls')"), "is named module:function"),
        (changed("contract", "run", "rounds", to=0), "run needs rounds to be a whole number >= 1"),
        (changed("contract", "run", "speed", to=0), "not exactly the options that this version knows, look at speed"),
        (changed("contract", "run", "set", to={"a": [1]}), "numbers and words by name"),
        (changed("contract", "privacy", to={"a": float("nan")}), "NaN is no number"),
        (SIGNED.replace("50.0", "1e999"), "numbers are finite"),
        (SIGNED.replace("50.0", "9" * 30), "at most 19 digits"),
        (SIGNED.replace("50.0", "9" * 5000), "cannot be read"),
        (SIGNED.replace('"quorum":2', '"quorum":2,"quorum":2'), "'quorum' comes twice"),
        ("[" * 5000, "cannot be read"),
        ("[" * 11 + "]" * 11, "nested too deeply"),
        (SIGNED[:-1], "it is no JSON"),
        (SIGNED + " " * LONGEST, "characters, more than"),
        ("", "it is no JSON"),
    ],
)
def test_what_is_no_contract_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(RefusedContract, match=why) as refused:
        from_json(text)
    assert len(str(refused.value).splitlines()) == 1 and len(str(refused.value)) < 400


@given(text=st.text(max_size=60), at=st.integers(0, len(SIGNED)), cut=st.integers(0, 40))
def test_damaged_documents_are_refused_or_not_believed(text: str, at: int, cut: int) -> None:
    damaged = SIGNED[:at] + text + SIGNED[at + cut :]
    try:
        found = verify(damaged, ROOT.pem, NOW)
    except RefusedContract:
        return
    assert found.contract == CONTRACT  # blanks were added, nothing else


@pytest.mark.parametrize(
    "change", [{"run": {}}, {"limits": Limits(turn=0)}, {"privacy": {"noise": 1.0}}, {"privacy": {1: 2}}]
)
def test_nobody_makes_a_contract_that_cannot_be_read(change: dict[str, Any]) -> None:
    with pytest.raises(RefusedContract):
        replace(CONTRACT, **change)


def test_a_contract_too_long_to_travel_is_refused() -> None:
    long = replace(CONTRACT, data=DataForm((1,), tuple(f"class {at:060}" for at in range(4000))))
    with pytest.raises(RefusedContract, match="a contract has at most"):
        to_json(sign(long, ADMIN.key_pem, ADMIN.pem, NOW))


@pytest.mark.parametrize("kind", ["rsa", "ec"])
def test_a_signature_holds(kind: str) -> None:
    root = certified("north", kind=kind)
    admin = certified("ada@north", root, role="project_admin", kind=kind)
    signed = sign(CONTRACT, admin.key_pem, admin.pem, NOW)
    assert verify(to_json(signed), root.pem, NOW) == signed
    assert verify(to_json(sign(CONTRACT, admin.key_pem, admin.pem + root.pem, NOW)), root.pem, NOW).contract == CONTRACT


def test_any_change_breaks_the_signature() -> None:
    for other in (
        replace(CONTRACT, quorum=1),
        replace(CONTRACT, leaves=CONTRACT.leaves[1:]),
        with_run(CONTRACT, rounds=9),
        with_run(CONTRACT, set={"sigma": 50}),  # equal to 50.0, but another method to the layout
    ):
        forged = to_json(sign(CONTRACT, ADMIN.key_pem, ADMIN.pem, NOW)._replace(contract=other))
        with pytest.raises(RefusedContract, match="its signature does not hold: it was changed"):
            verify(forged, ROOT.pem, NOW)


OTHER_ROOT = certified("north")


@pytest.mark.parametrize(
    ("signer", "root", "why"),
    [
        (certified("ada@north", OTHER_ROOT, role="project_admin"), ROOT, "not certified by this consortium's root"),
        (certified("ada@north", role="project_admin"), ROOT, "not certified by this consortium's root"),
        (certified("borea", ROOT), ROOT, "its signer 'borea' is without a role, and only a project_admin may sign"),
        (certified("lee@north", ROOT, role="lead"), ROOT, "its signer 'lee@north' is lead, and only"),
        (certified("ada", ROOT, role="project_admin", authority=True), ROOT, "only a project_admin may sign"),
        (certified("ada", ROOT, role="project_admin", ends=NOW - timedelta(1)), ROOT, "signer's certificate is valid"),
        (certified("ada", ROOT, role="project_admin", begins=NOW + timedelta(1)), ROOT, "is now 2026-03-01 12:00 UTC"),
        (ADMIN, certified("north", key=ROOT.key, ends=NOW - timedelta(1)), "the root certificate is valid from"),
        (ADMIN, certified("north", key=ROOT.key, authority=False), "none that may certify others"),
        (certified("ada", certified("south"), role="project_admin"), certified("south"), "not certified by"),
    ],
)
def test_others_cannot_sign(signer: Holder, root: Holder, why: str) -> None:
    document = to_json(sign(CONTRACT, signer.key_pem, signer.pem, NOW))
    with pytest.raises(RefusedContract, match=f"the contract of run 'sepsis-1' is refused, .*{why}"):
        verify(document, root.pem, NOW)


def test_a_contract_of_another_consortium_is_refused() -> None:
    south = replace(CONTRACT, consortium="south")
    document = to_json(sign(south, ADMIN.key_pem, ADMIN.pem, NOW))
    with pytest.raises(RefusedContract, match="it is of the consortium 'south', this silo belongs to 'north'"):
        verify(document, ROOT.pem, NOW)


@pytest.mark.parametrize("signature", ["", "no base64!", "c2lnbmVk"])
def test_what_is_no_signature_is_refused(signature: str) -> None:
    with pytest.raises(RefusedContract, match="its signature"):
        verify(changed("signature", to=signature), ROOT.pem, NOW)


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(RefusedContract, match="the signer's certificate is not one certificate in PEM"):
        verify(changed("certificate", to=["nothing"]), ROOT.pem, NOW)
    with pytest.raises(RefusedContract, match="the root certificate is not one certificate in PEM"):
        verify(SIGNED, b"", NOW)


def test_a_signer_needs_its_own_key() -> None:
    with pytest.raises(InputError, match="key and certificate belong together"):
        sign(CONTRACT, ROOT.key_pem, ADMIN.pem, NOW)
    with pytest.raises(InputError, match="needs a key and a certificate in PEM"):
        sign(CONTRACT, b"", ADMIN.pem, NOW)


def test_keys_of_other_kinds_do_not_sign() -> None:
    odd = certified("ada@north", ROOT, role="project_admin", key=ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(InputError, match="a signer's key is RSA or EC, got Ed25519PrivateKey"):
        sign(CONTRACT, odd.key_pem, odd.pem, NOW)
    forged = to_json(Signed(CONTRACT, "c2lnbmVk", odd.pem.decode(), NOW.isoformat()))
    with pytest.raises(RefusedContract, match="its signer's key is RSA or EC, got Ed25519PublicKey"):
        verify(forged, ROOT.pem, NOW)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(InputError, match=r"need the package cryptography.*pip install 'amity\[federation\]'"):
        verify(SIGNED, ROOT.pem, NOW)


def test_contracts_need_no_cryptography_to_be_read() -> None:
    program = (
        "import sys\n"
        "from amity.federation import signed, policy, approvals, audit, contract_words\n"
        "signed.from_json(sys.stdin.read()).contract.hash()\n"
        "print(*sorted({'cryptography', 'torch', 'nvflare'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=SIGNED, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_a_contract_outlives_the_certificate_that_signed_it() -> None:
    later = NOW + timedelta(days=400)  # when that of the signer and the root's have ended
    assert verify(SIGNED, ROOT.pem, later, known=True).contract == CONTRACT
    with pytest.raises(RefusedContract, match="the root certificate is valid from .*, it is now 2027-04-05 12:00 UTC"):
        verify(SIGNED, ROOT.pem, later)
    lasting = certified("north", key=ROOT.key, ends=NOW + timedelta(days=999))
    with pytest.raises(RefusedContract, match="the signer's certificate is valid from .*, it is now 2027-04-05"):
        verify(SIGNED, lasting.pem, later)


@pytest.mark.parametrize("days", [-11, 11])
def test_no_contract_holds_that_was_signed_outside_its_certificates_time(days: int) -> None:
    lasting = certified("north", key=ROOT.key, begins=NOW - timedelta(99), ends=NOW + timedelta(99))
    document = to_json(sign(CONTRACT, ADMIN.key_pem, ADMIN.pem, NOW + timedelta(days)))
    with pytest.raises(RefusedContract, match="the signer's certificate is valid from .*, it was signed at"):
        verify(document, lasting.pem, NOW + timedelta(20), known=True)


def test_the_time_of_a_signature_is_signed() -> None:
    with pytest.raises(RefusedContract, match="its signature does not hold"):
        verify(changed("signed", to=(NOW - timedelta(1)).isoformat()), ROOT.pem, NOW, known=True)
    for time in ("yesterday", "2026-03-01T12:00:00", ""):
        with pytest.raises(RefusedContract, match="the time of its signature is none"):
            verify(changed("signed", to=time), ROOT.pem, NOW)


def test_a_contract_of_tomorrow_is_refused() -> None:
    document = to_json(sign(CONTRACT, ADMIN.key_pem, ADMIN.pem, NOW + timedelta(hours=2)))
    with pytest.raises(RefusedContract, match="which is yet to come; look at both clocks"):
        verify(document, ROOT.pem, NOW)
    assert verify(document, ROOT.pem, NOW + timedelta(hours=1)).contract == CONTRACT
