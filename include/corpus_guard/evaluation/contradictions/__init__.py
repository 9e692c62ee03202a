"""Measures of telling contradictions of trusted texts from honest texts: own cases and passages from the web."""
