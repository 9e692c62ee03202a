"""RevPRAG: detection of answers that poisoned texts forced, from the activations of the model that gave them.

Source: "RevPRAG: Revealing Poisoning Attacks in Retrieval-Augmented Generation through LLM Activation
Analysis" (Tan and others, 2024).

The RAG model reads its prompt, and its answer starts from the state of the prompt's last token at every
layer. A *probe* is trained on such states, from attackers' answers and from right answers. It classifies a
new state as *poisoned*, *clean* or *unsure*. The probe is a second witness beside the judge of texts and
never decides alone. Importing this package loads no model.
"""
