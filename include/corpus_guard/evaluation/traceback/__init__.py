"""How well a wrong answer is traced to the texts that caused it: attacks played against a throw-away corpus, and what they come to."""
