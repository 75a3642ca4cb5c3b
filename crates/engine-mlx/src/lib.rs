//! Runs safetensors models with MLX.
