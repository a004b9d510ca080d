/* One rank of a test job: calls everything in rail.h and checks what comes back. Argument: exit, wait or crash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rail.h"

#define COUNT 1000

static int fail(const char *what, int status) {
    fprintf(stderr, "%s: status %d %s: %s\n", what, status, rail_strerror(status), rail_last_error());
    return 1;
}

#define CALL(expression)                          \
    do {                                          \
        int status_ = (expression);               \
        if (status_ < 0) {                        \
            exit(fail(#expression, status_));     \
        }                                         \
    } while (0)

#define EXPECT(condition)                                        \
    do {                                                         \
        if (!(condition)) {                                      \
            fprintf(stderr, "%d: %s\n", __LINE__, #condition);   \
            exit(1);                                             \
        }                                                        \
    } while (0)

static float value(int rank, int at) {
    return (float)(rank * 100 + at % 50);
}

static void every_call(const rail_t *rail) {
    int rank = rail_rank(rail), size = rail_size(rail), at, block;
    static float mine[COUNT], wide[2 * COUNT], out[COUNT], wide_out[2 * COUNT];
    int64_t number = rank + 3;

    EXPECT(size == 2 && rail_local_rank(rail) == rank && rail_local_size(rail) == 2);
    EXPECT(rail_node(rail) == 0 && rail_nodes(rail) == 1);
    for (at = 0; at < COUNT; at++) {
        mine[at] = value(rank, at);
    }
    for (at = 0; at < 2 * COUNT; at++) {
        wide[at] = value(rank, at);
    }

    CALL(rail_barrier(rail));
    CALL(rail_all_reduce(rail, mine, out, COUNT, RAIL_F32, RAIL_SUM));
    for (at = 0; at < COUNT; at++) {
        EXPECT(out[at] == value(0, at) + value(1, at));
    }
    CALL(rail_all_reduce(rail, &number, &number, 1, RAIL_I64, RAIL_PROD));
    EXPECT(number == 12);
    CALL(rail_all_gather(rail, mine, wide_out, COUNT, RAIL_F32));
    for (at = 0; at < 2 * COUNT; at++) {
        EXPECT(wide_out[at] == value(at / COUNT, at % COUNT));
    }
    CALL(rail_reduce_scatter(rail, wide, out, COUNT, RAIL_F32, RAIL_MAX));
    for (at = 0; at < COUNT; at++) {
        EXPECT(out[at] == value(1, rank * COUNT + at));
    }
    CALL(rail_all_to_all(rail, wide, wide_out, COUNT, RAIL_F32));
    for (block = 0; block < 2; block++) {
        for (at = 0; at < COUNT; at++) {
            EXPECT(wide_out[block * COUNT + at] == value(block, rank * COUNT + at));
        }
    }
    memcpy(out, mine, sizeof out);
    CALL(rail_broadcast(rail, out, COUNT, RAIL_F32, 1));
    for (at = 0; at < COUNT; at++) {
        EXPECT(out[at] == value(1, at));
    }
    if (rank == 0) {
        CALL(rail_send(rail, mine, COUNT, RAIL_F32, 1, 9));
    } else {
        CALL(rail_recv(rail, out, COUNT, RAIL_F32, 0, 9));
        for (at = 0; at < COUNT; at++) {
            EXPECT(out[at] == value(0, at));
        }
    }

    /* What is wrong is refused, and harms nothing. */
    EXPECT(rail_all_reduce(rail, NULL, out, 1, RAIL_F32, RAIL_SUM) == RAIL_E_INVALID);
    EXPECT(strstr(rail_last_error(), "NULL") != NULL);
    EXPECT(rail_all_reduce(rail, mine, out, 1, 77, RAIL_SUM) == RAIL_E_INVALID);
    EXPECT(rail_all_reduce(rail, mine, out, 1, RAIL_F32, 0) == RAIL_E_INVALID);
    EXPECT(rail_all_reduce(rail, mine, mine + 1, 2, RAIL_F32, RAIL_SUM) == RAIL_E_INVALID);
    EXPECT(rail_all_reduce(rail, mine, out, (size_t)-1, RAIL_F32, RAIL_SUM) == RAIL_E_INVALID);
    EXPECT(rail_broadcast(rail, out, 1, RAIL_F32, 5) == RAIL_E_INVALID);
    EXPECT(rail_all_reduce(rail, NULL, NULL, 0, RAIL_F32, RAIL_SUM) == RAIL_OK);
    CALL(rail_set_timeout_ms(rail, 10000));
    CALL(rail_barrier(rail));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    rail_t *rail = NULL;

    EXPECT(rail_abi_version() == RAIL_ABI_VERSION);
    CALL(rail_init_from_env(&rail));
    if (strcmp(what, "exit") == 0) {
        CALL(rail_barrier(rail));
        return 0;
    }
    if (strcmp(what, "wait") == 0) {
        CALL(rail_barrier(rail));
        CALL(rail_barrier(rail));
        return 0;
    }
    if (strcmp(what, "crash") == 0) {
        CALL(rail_barrier(rail));
        abort();
    }
    every_call(rail);
    CALL(rail_finalize(rail));
    printf("all calls right\n");
    return 0;
}
