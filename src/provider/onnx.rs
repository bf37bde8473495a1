//! ONNX Runtime, loaded once at start.
