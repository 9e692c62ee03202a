"""What the CPU computes fast."""

from __future__ import annotations

import torch


def number_format() -> str:
    """``bfloat16`` where the CPU computes in it (2.5 to 3 times faster here), else ``float32``: emulated bfloat16 is slow."""
    capabilities = torch.cpu.get_capabilities()
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"
