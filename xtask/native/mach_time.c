/* mlx-rs seeds its random numbers from this macOS clock; here is its like on Linux. */
#include <stdint.h>
#include <time.h>

uint64_t mach_approximate_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
