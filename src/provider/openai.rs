//! HTTP to OpenAI-compatible endpoints.
