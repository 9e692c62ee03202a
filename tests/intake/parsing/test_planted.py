"""What is planted where no reader looks is found by screening: the same way as `guard screen`, with the policy as delivered.

Perplexity is off: it loads a language model, and what it says is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from corpus_guard.domain import Verdict
from corpus_guard.models import Models
from corpus_guard.screening.standalone import ScreenedDocument, ScreenOptions, screen_input
from corpus_guard.settings import Settings
from intake.parsing import making, planted

FILES = dict(planted.files())
SEEN = {
    f"seen-{name}.html": f"<html><body><p>{planted.PLAIN}</p>{body}</body></html>".encode()
    for name, body in planted.SEEN.items()
}
SEEN |= {f"seen-{name}.md": text.encode() for name, text in planted.SEEN_MARKDOWN.items()}
_NOTE, _CODE = (
    {"cell_type": kind, "metadata": {}, "source": planted.PLAIN, "outputs": []} for kind in ("markdown", "code")
)
_SAYS = {"output_type": "stream", "name": "stdout", "text": planted.ORDER}
SEEN |= {
    "seen-markdown.ipynb": making.notebook(_NOTE, _NOTE | {"source": planted.ORDER}),
    "seen-code.ipynb": making.notebook(_NOTE, _CODE | {"source": f"# {planted.ORDER}\ndepth()"}),
    "seen-output.ipynb": making.notebook(_NOTE, _CODE | {"source": "depth()", "outputs": [_SAYS]}),
}
CLEAN = {
    "clean.ipynb": making.notebook(
        _NOTE,
        _CODE
        | {
            "source": "import depths\n\ndepths.plot(quay='east')",
            "outputs": [{"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 9_000}, "metadata": {}}],
        },
    ),
    "clean.html": f"<html><head><title>Quays</title></head><body><h1>Quays</h1><p>{planted.PLAIN}</p></body></html>".encode(),
    "clean.docx": making.word(planted.PLAIN),
    "clean.pdf": making.pdf(planted.PLAIN),
    "clean.pptx": making.slides(
        title=planted.PLAIN, notes="Pause here and let the audience look at the plan of the harbour for a while."
    ),
    "clean.xlsx": making.sheets(),
    "clean.epub": making.book(f"<h1>Quays</h1><p>{planted.PLAIN}</p>"),
    "clean.md": f"# Quays\n\n{planted.PLAIN}\n".encode(),
}


@pytest.fixture(scope="module")
def screened(
    models: Models, models_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, ScreenedDocument]:
    folder = tmp_path_factory.mktemp("planted")
    for name, content in {**FILES, **SEEN, **CLEAN}.items():
        (folder / name).write_bytes(content)
    values = yaml.safe_load(Settings().policy_file.read_text())
    values["checks"]["perplexity"] = {"enabled": False}
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text(yaml.safe_dump(values))
    settings = Settings(home=models_home, policy_file=policy)
    return {row.id: row for row in screen_input(settings, folder, ScreenOptions(one_by_one=True), models=models)}


@pytest.mark.parametrize("name", FILES)
def test_an_instruction_in_a_hidden_place_is_quarantined_as_hidden(
    screened: Mapping[str, ScreenedDocument], name: str
) -> None:
    found = screened[name].judgement
    codes = {finding.code for finding in found.findings}
    assert found.verdict is Verdict.QUARANTINE, codes
    assert "instructions.override.hidden" in codes or any(code.endswith(".hidden") for code in codes), codes
    assert "parsing.hidden_text" in codes
    assert "structure.media_type" not in codes


@pytest.mark.parametrize("name", SEEN)
def test_what_is_on_the_screen_is_found_as_text(screened: Mapping[str, ScreenedDocument], name: str) -> None:
    codes = {finding.code for finding in screened[name].judgement.findings}
    assert screened[name].judgement.verdict is Verdict.QUARANTINE
    assert any(code.startswith("instructions.") and not code.endswith(".hidden") for code in codes)


@pytest.mark.parametrize("name", CLEAN)
def test_the_same_documents_without_it_are_accepted(screened: Mapping[str, ScreenedDocument], name: str) -> None:
    judgement = screened[name].judgement
    assert judgement.verdict is Verdict.ACCEPT, [(finding.code, finding.message) for finding in judgement.findings]
