// Runs the body of the kernel on a CPU: LANES threads compute a column together, as on a GPU. Reads the
// inputs from the standard input, and writes the outputs to the standard output.
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static std::barrier lockstep(LANES);
static float exchanged[LANES];
static thread_local int this_lane;

static float from_lane(float x, int distance) {
  exchanged[this_lane] = x;
  lockstep.arrive_and_wait();
  const float other = exchanged[this_lane ^ distance];
  lockstep.arrive_and_wait();
  return other;
}

static float exponential(float x) {
  return std::exp(x);
}

static std::vector<float> read_floats(size_t n) {
  std::vector<float> floats(n);
  if (std::fread(floats.data(), sizeof(float), n, stdin) != n) {
    std::exit(2);
  }
  return floats;
}

struct Arrays {
  std::vector<float> queries, keys, values, log_decays, betas, state, out, new_state;
  int values_shape[3];
};

static void run(Arrays& arrays, int head, int column, int lane) {
  const float* queries = arrays.queries.data();
  const float* keys = arrays.keys.data();
  const float* values = arrays.values.data();
  const float* log_decays = arrays.log_decays.data();
  const float* betas = arrays.betas.data();
  const float* state = arrays.state.data();
  float* out = arrays.out.data();
  float* new_state = arrays.new_state.data();
  const int* values_shape = arrays.values_shape;
#include "kernel.h"
}

int main(int, char** arguments) {
  constexpr int heads = KEY_HEADS * GROUPS;
  const int n_tokens = std::atoi(arguments[1]);
  Arrays arrays;
  arrays.queries = read_floats(n_tokens * KEY_HEADS * KEY_DIM);
  arrays.keys = read_floats(n_tokens * KEY_HEADS * KEY_DIM);
  arrays.values = read_floats(n_tokens * heads * VALUE_DIM);
  arrays.log_decays = read_floats(n_tokens * heads);
  arrays.betas = read_floats(n_tokens * heads);
  arrays.state = read_floats(heads * VALUE_DIM * KEY_DIM);
  arrays.out.assign(arrays.values.size(), NAN);
  arrays.new_state.assign(arrays.state.size(), NAN);
  arrays.values_shape[0] = n_tokens;
  std::vector<std::thread> threads;
  for (int lane = 0; lane < LANES; lane++) {
    threads.emplace_back([&arrays, lane] {
      this_lane = lane;
      for (int head = 0; head < heads; head++) {
        for (int column = 0; column < VALUE_DIM; column++) {
          run(arrays, head, column, lane);
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  std::fwrite(arrays.out.data(), sizeof(float), arrays.out.size(), stdout);
  std::fwrite(arrays.new_state.data(), sizeof(float), arrays.new_state.size(), stdout);
}
