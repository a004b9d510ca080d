/* Sizes and offsets of NCCL's interface for tuners, as sizes.c has those of network plugins. With UPSTREAM defined the same lines are measured
 * on NCCL's own headers. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef UPSTREAM
#include "err.h"
#include "common.h"
typedef int ncclFunc_t;
#include "tuner/tuner_v3.h"
#include "tuner/tuner_v4.h"
#include "tuner/tuner_v5.h"
#include "tuner/tuner_v6.h"
typedef ncclTuner_v3_t tuner3;
typedef ncclTuner_v4_t tuner4;
typedef ncclTuner_v5_t tuner5;
typedef ncclTuner_v6_t tuner6;
#else
typedef int (*entry)(void);
typedef struct { const char *name; entry init, getCollInfo, destroy; } tuner3;
typedef tuner3 tuner4;
typedef struct { const char *name; entry init, getCollInfo, finalize; } tuner5;
typedef struct { const char *name; entry init, getCollInfo, finalize, getChunkSize; } tuner6;
#endif

#define TABLE(type, end) \
    printf("size %s %zu\n", #type, sizeof(type)); \
    printf("at %s name %zu\n", #type, offsetof(type, name)); \
    printf("at %s init %zu\n", #type, offsetof(type, init)); \
    printf("at %s choose %zu\n", #type, offsetof(type, getCollInfo)); \
    printf("at %s end %zu\n", #type, offsetof(type, end))

int main(void) {
    TABLE(tuner3, destroy);
    TABLE(tuner4, destroy);
    TABLE(tuner5, finalize);
    TABLE(tuner6, finalize);
    printf("at tuner6 chunk %zu\n", offsetof(tuner6, getChunkSize));
    return 0;
}
