"""How well contradictions of trusted texts are told from honest texts: cases of our own and passages from the web."""
