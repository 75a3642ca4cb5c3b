//! Runs GGUF models with llama.cpp.
