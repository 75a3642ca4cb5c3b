// The gated delta rule of one sequence. Metal and CUDA compile this same text as the body of a
// kernel, and a test compiles it as C++.
//
// LANES neighboring threads share a column of the state, which is all that one element of a value
// changes. Each keeps KEY_DIM / LANES elements of the column in registers from the first token to the
// last. `head`, `column` and `lane` are the value head, the column and the place among the threads of
// the column; `from_lane(x, n)` returns the x of the thread whose lane differs in the bits of n.
//
// The inputs of the next token are read before the current one is computed, which hides how long
// that takes.

constexpr int SIZE = KEY_DIM / LANES;
const int n_tokens = values_shape[0];
const int key_head = head / GROUPS;
auto token_queries = queries + key_head * KEY_DIM + lane;
auto token_keys = keys + key_head * KEY_DIM + lane;
auto token_values = values + head * VALUE_DIM + column;
auto token_log_decays = log_decays + head;
auto token_betas = betas + head;
auto token_out = out + head * VALUE_DIM + column;
const int place = (head * VALUE_DIM + column) * KEY_DIM + lane;

float part[SIZE];
#pragma unroll
for (int i = 0; i < SIZE; i++) {
  part[i] = state[place + i * LANES];
}
float next_query[SIZE] = {0};
float next_key[SIZE] = {0};
float next_value = 0, next_decay = 0, next_beta = 0;
// One round before the first token only reads.
for (int token = -1; token < n_tokens; token++) {
  float query[SIZE], key[SIZE];
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    query[i] = next_query[i];
    key[i] = next_key[i];
  }
  const float value = next_value, decay = next_decay, beta = next_beta;
  if (token + 1 < n_tokens) {
#pragma unroll
    for (int i = 0; i < SIZE; i++) {
      next_query[i] = float(token_queries[i * LANES]);
      next_key[i] = float(token_keys[i * LANES]);
    }
    next_value = float(*token_values);
    next_decay = exponential(float(*token_log_decays));
    next_beta = float(*token_betas);
    token_queries += KEY_HEADS * KEY_DIM;
    token_keys += KEY_HEADS * KEY_DIM;
    token_values += KEY_HEADS * GROUPS * VALUE_DIM;
    token_log_decays += KEY_HEADS * GROUPS;
    token_betas += KEY_HEADS * GROUPS;
  }
  if (token < 0) {
    continue;
  }
  float read = 0;
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    part[i] *= decay;
    read += part[i] * key[i];
  }
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    read += from_lane(read, distance);
  }
  const float correction = (value - read) * beta;
  float result = 0;
#pragma unroll
  for (int i = 0; i < SIZE; i++) {
    part[i] += key[i] * correction;
    result += part[i] * query[i];
  }
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    result += from_lane(result, distance);
  }
  if (lane == 0) {
    *token_out = result;
  }
  token_out += KEY_HEADS * GROUPS * VALUE_DIM;
}
#pragma unroll
for (int i = 0; i < SIZE; i++) {
  new_state[place + i * LANES] = part[i];
}
