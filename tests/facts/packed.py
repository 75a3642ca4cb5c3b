"""Computes the bytes of a model's files from its config and the name of a quantization.

Headers, vocabularies and other small files are left out, so the result is a little low.
"""

from shapes import EXPERTS, MATRIX, PLAIN, ROUTER
from shapes import family, is_tied, mixture, per_layer_inputs, tensors, text_config

# Bits per element; of MLX's integers with scales and offsets, 16 bits each per 64 elements.
MLX_BITS = {
    "2-bit": 2.5, "3-bit": 3.5, "4-bit": 4.5, "5-bit": 5.5, "6-bit": 6.5, "8-bit": 8.5,
    "MXFP4": 4.25, "MXFP8": 8.25, "NVFP4": 4.5, "BF16": 16.0, "F16": 16.0,
}
GGUF_BITS = {
    "Q4_0": 4.5, "Q4_K_S": 4.5, "Q4_K_M": 4.5, "Q5_K_S": 5.5, "Q5_K_M": 5.5, "Q6_K": 6.5625,
    "Q8_0": 8.5, "MXFP4": 4.25, "BF16": 16.0, "F16": 16.0,
}
# llama.cpp's fallback for rows that are not a multiple of the 256 elements of a K-quant's block.
FOR_SHORT_ROWS = {4.5: 5.5, 5.5: 6.0, 6.5625: 8.5}


def usual_sizes(config, form, quantization, vision_parameters):
    """Returns the possible sizes of a variant's weights. Some files contain a tied table twice."""
    table = text_config(config)["vocab_size"] * text_config(config)["hidden_size"]
    if form == "mlx":
        size = mlx_bytes(config, quantization) + 2 * vision_parameters
        copy = table * MLX_BITS[quantization] / 8
    else:
        size = gguf_bytes(config, quantization.removeprefix("UD-"))
        copy = table * GGUF_BITS[quantization.removeprefix("UD-")] / 8
    return [size, size + copy] if is_tied(config) else [size]


def mlx_bytes(config, quantization):
    """Returns the bytes of the language model's safetensors as mlx-lm writes them."""
    rest = MLX_BITS[quantization]
    bits = {MATRIX: rest, EXPERTS: rest, ROUTER: max(rest, 8.5), PLAIN: 16}
    if quantization == "MXFP4" and family(config) == "gpt_oss":
        # In gpt-oss only the experts have less than 8 bits.
        bits[MATRIX] = 8.5
    return sum(count * bits[kind] / 8 for count, kind in tensors(config))


def gguf_bytes(config, quantization):
    """Returns the bytes of a GGUF file as llama.cpp quantizes it.

    The medium quantizations keep the output matrix, and the value and down projections of half of the
    layers, in Q6_K; their share is close to a sixth of the rest.
    """
    text, usual = text_config(config), GGUF_BITS[quantization]
    counts = {kind: 0 for kind in (MATRIX, ROUTER, EXPERTS, PLAIN)}
    for count, kind in tensors(config):
        counts[kind] += count
    if quantization == "MXFP4":
        small = (counts[MATRIX] + counts[ROUTER]) * 8.5
        return (counts[EXPERTS] * usual + small) / 8 + 4 * counts[PLAIN]
    table = text["vocab_size"] * text["hidden_size"]
    per_layer = next((count for count, _ in per_layer_inputs(text, text["num_hidden_layers"])), 0)
    body = counts[MATRIX] + counts[ROUTER] + counts[EXPERTS] - per_layer
    body -= table if is_tied(config) else 2 * table

    mixed = quantization in ("Q4_K_M", "Q5_K_M")
    body_bits = usual + (GGUF_BITS["Q6_K"] - usual) / 6 if mixed else usual
    output_bits = 8.5 if quantization == "Q4_0" else max(usual, GGUF_BITS["Q6_K"])
    per_layer_bits = {4.5: 5.5, 6.5625: 8.5}.get(usual, usual)
    if "_K" in quantization:
        if text["hidden_size"] % 256:
            body_bits = FOR_SHORT_ROWS[usual]
            output_bits = FOR_SHORT_ROWS.get(output_bits, output_bits)
        elif mixture(text) and mixture(text)[2] % 256:
            # Only an expert's down projection has rows of its width: a third of the expert.
            down = counts[EXPERTS] / 3
            more = FOR_SHORT_ROWS[usual] - usual
            more += (FOR_SHORT_ROWS[6.5625] - FOR_SHORT_ROWS[usual]) / 2 if mixed else 0
            body_bits += down / body * more
    total = body * body_bits + table * output_bits + per_layer * per_layer_bits
    if not is_tied(config):
        total += table * usual
    return total / 8 + 4 * counts[PLAIN]
