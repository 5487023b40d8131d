"""Model files and what may be in them, students, cards, ONNX."""
