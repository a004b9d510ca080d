/* One rank of a test job: calls everything in rail.h and checks what comes back. Argument: exit, wait, crash, late or notify. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rail.h"

/* Only in test builds, and not in rail.h. */
int rail_debug_panic(const rail_t *rail, int thread);

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

static void done(int status, void *context) {
    *(volatile int *)context = status + 1000;
}

/* All calls without waiting, more than one at a time, ended in every way that there is. */
static void every_call_without_waiting(const rail_t *rail) {
    int rank = rail_rank(rail), at, status;
    static float mine[COUNT], wide[2 * COUNT], out[8][2 * COUNT];
    rail_request_t *request[9] = {NULL};

    for (at = 0; at < 2 * COUNT; at++) {
        wide[at] = value(rank, at);
    }
    memcpy(mine, wide, sizeof mine);
    memcpy(out[4], wide, sizeof wide);
    /* Receiving comes before sending on both ranks: nothing waits for what is called later. */
    CALL(rail_irecv(rail, out[6], COUNT, RAIL_F32, 1 - (uint32_t)rank, 4, &request[6]));
    EXPECT(rail_request_test(request[6]) == RAIL_PENDING);
    EXPECT(rail_request_wait(request[6], 1) == RAIL_PENDING);
    EXPECT(strcmp(rail_request_error(request[6]), "") == 0);
    CALL(rail_barrier(rail));
    CALL(rail_ibarrier(rail, &request[0]));
    CALL(rail_iall_reduce(rail, mine, out[1], COUNT, RAIL_F32, RAIL_SUM, &request[1]));
    CALL(rail_iall_gather(rail, mine, out[2], COUNT, RAIL_F32, &request[2]));
    CALL(rail_ireduce_scatter(rail, wide, out[3], COUNT, RAIL_F32, RAIL_SUM, &request[3]));
    CALL(rail_ibroadcast(rail, out[4], COUNT, RAIL_F32, 0, &request[4]));
    CALL(rail_iall_to_all(rail, wide, out[5], COUNT, RAIL_F32, &request[5]));
    CALL(rail_isend(rail, mine, COUNT, RAIL_F32, 1 - (uint32_t)rank, 4, &request[7]));
    memset(mine, 0, sizeof mine);
    memset(wide, 0, sizeof wide);
    while ((status = rail_request_test(request[7])) == RAIL_PENDING) {
        usleep(100);
    }
    CALL(status);
    for (at = 6; at >= 0; at--) {
        CALL(rail_request_wait(request[at], 0));
        EXPECT(rail_request_test(request[at]) == RAIL_OK);
    }
    for (at = 0; at < COUNT; at++) {
        EXPECT(out[1][at] == value(0, at) + value(1, at));
        EXPECT(out[2][at] == value(0, at) && out[2][COUNT + at] == value(1, at));
        EXPECT(out[3][at] == value(0, rank * COUNT + at) + value(1, rank * COUNT + at));
        EXPECT(out[4][at] == value(0, at));
        EXPECT(out[5][at] == value(0, rank * COUNT + at) && out[5][COUNT + at] == value(1, rank * COUNT + at));
        EXPECT(out[6][at] == value(1 - rank, at));
    }
    for (at = 0; at < 8; at++) {
        CALL(rail_request_free(request[at]));
    }

    /* A call that its caller gives up still takes place for the others. */
    memset(out[0], 0, sizeof out[0]);
    CALL(rail_iall_reduce(rail, out[4], out[0], COUNT, RAIL_F32, RAIL_SUM, &request[0]));
    if (rank == 0) {
        CALL(rail_request_free(request[0]));
    } else {
        CALL(rail_request_wait(request[0], 0));
        EXPECT(out[0][7] == 2 * value(0, 7));
        CALL(rail_request_free(request[0]));
    }
    CALL(rail_barrier(rail));
    EXPECT(rank == 1 || out[0][7] == 0);

    EXPECT(rail_iall_reduce(rail, NULL, out, 1, RAIL_F32, RAIL_SUM, &request[8]) == RAIL_E_INVALID);
    EXPECT(request[8] == NULL && rail_ibarrier(rail, NULL) == RAIL_E_INVALID);
    EXPECT(rail_request_test(NULL) == RAIL_E_INVALID && rail_request_wait(NULL, 1) == RAIL_E_INVALID);
    EXPECT(rail_request_free(NULL) == RAIL_OK && rail_request_error(NULL)[0] == 0);
}

/* Callbacks and the event descriptor. */
static void told_when_done(const rail_t *rail) {
    volatile int told[3] = {0, 0, 0};
    rail_request_t *request[3];
    struct pollfd event;
    uint64_t count = 0, once;
    int64_t sum = 1;
    int at;

    CALL(rail_iall_reduce(rail, &sum, &sum, 1, RAIL_I64, RAIL_SUM, &request[0]));
    CALL(rail_request_on_done(request[0], done, (void *)&told[0]));
    EXPECT(rail_request_on_done(request[0], NULL, NULL) == RAIL_E_INVALID);
    for (at = 0; at < 10000 && told[0] == 0; at++) {
        usleep(1000);
    }
    EXPECT(told[0] == 1000 && sum == 2 && rail_request_test(request[0]) == RAIL_OK);
    CALL(rail_request_on_done(request[0], done, (void *)&told[1]));
    EXPECT(told[1] == 1000);
    CALL(rail_request_free(request[0]));

    event.fd = rail_event_fd(rail);
    EXPECT(event.fd >= 0 && rail_event_fd(rail) == event.fd);
    event.events = POLLIN;
    EXPECT(poll(&event, 1, 0) == 0);
    for (at = 0; at < 3; at++) {
        CALL(rail_ibarrier(rail, &request[at]));
    }
    while (count < 3) {
        EXPECT(poll(&event, 1, 10000) == 1);
        EXPECT(read(event.fd, &once, sizeof once) == sizeof once);
        count += once;
    }
    for (at = 0; at < 3; at++) {
        EXPECT(rail_request_test(request[at]) == RAIL_OK);
        CALL(rail_request_free(request[at]));
    }
    EXPECT(count == 3 && poll(&event, 1, 0) == 0);
}

/* Memory that the engine shares, also together with other memory. */
static void shared_memory(const rail_t *rail) {
    int rank = rail_rank(rail), at;
    void *memory = NULL;
    float *shared, other[2 * COUNT];
    rail_request_t *request;

    CALL(rail_alloc(rail, 4 * COUNT * sizeof(float), &memory));
    shared = memory;
    EXPECT(shared[4 * COUNT - 1] == 0);
    for (at = 0; at < COUNT; at++) {
        shared[at] = value(rank, at);
    }
    CALL(rail_all_reduce(rail, shared, shared + COUNT, COUNT, RAIL_F32, RAIL_SUM));
    CALL(rail_all_gather(rail, shared, other, COUNT, RAIL_F32));
    CALL(rail_iall_gather(rail, other + COUNT, shared + 2 * COUNT, COUNT, RAIL_F32, &request));
    CALL(rail_request_wait(request, 0));
    CALL(rail_request_free(request));
    for (at = 0; at < COUNT; at++) {
        EXPECT(shared[COUNT + at] == value(0, at) + value(1, at));
        EXPECT(other[at] == value(0, at) && other[COUNT + at] == value(1, at));
        EXPECT(shared[2 * COUNT + at] == value(1, at) && shared[3 * COUNT + at] == value(1, at));
    }
    /* One rank in place in shared memory, the other in its own. */
    if (rank == 0) {
        CALL(rail_all_reduce(rail, shared, shared, COUNT, RAIL_F32, RAIL_MAX));
        EXPECT(shared[3] == value(1, 3));
    } else {
        CALL(rail_all_reduce(rail, other + COUNT, other, COUNT, RAIL_F32, RAIL_MAX));
        EXPECT(other[3] == value(1, 3));
    }
    /* Gathering and scattering in place, in either memory. */
    shared[rank * COUNT] = (float)(rank + 5);
    CALL(rail_all_gather(rail, shared + rank * COUNT, shared, COUNT, RAIL_F32));
    EXPECT(shared[0] == 5 && shared[COUNT] == 6);
    other[0] = 1;
    other[COUNT] = 2;
    CALL(rail_reduce_scatter(rail, other, other + rank * COUNT, COUNT, RAIL_F32, RAIL_SUM));
    EXPECT(other[rank * COUNT] == 2 * (float)(rank + 1));
    EXPECT(rail_all_gather(rail, shared + 3, shared, COUNT, RAIL_F32) == RAIL_E_INVALID);

    EXPECT(rail_free(rail, shared + 1) == RAIL_E_INVALID);
    CALL(rail_free(rail, memory));
    EXPECT(rail_free(rail, memory) == RAIL_E_INVALID);
    CALL(rail_free(rail, NULL));
    EXPECT(rail_alloc(rail, (size_t)-1, &memory) < 0 && memory == NULL);
}

/* A bug inside stays inside: the caller gets a status and a text, and the library goes on. */
static void a_panic_is_a_status(const rail_t *rail) {
    volatile int told = 0;
    rail_request_t *request;
    int at;

    EXPECT(rail_debug_panic(rail, 0) == RAIL_E_PANIC);
    EXPECT(strstr(rail_last_error(), "on purpose") != NULL);
    CALL(rail_debug_panic(rail, 1));
    CALL(rail_irecv(rail, &at, 1, RAIL_I32, 1 - (uint32_t)rail_rank(rail), 77, &request));
    CALL(rail_request_on_done(request, done, (void *)&told));
    for (at = 0; at < 10000 && told == 0; at++) {
        usleep(1000);
    }
    EXPECT(told == 1000 + RAIL_E_PANIC && rail_request_test(request) == RAIL_E_PANIC);
    EXPECT(strstr(rail_request_error(request), "in the thread") != NULL);
    CALL(rail_request_free(request));
    CALL(rail_barrier(rail));
}

/* A message that nobody sends: the call's own limit ends it, and with it the other rank's call that has none. */
static int nobody_sends(const rail_t *rail) {
    float data[4];
    rail_request_t *request;
    int status;

    if (rail_rank(rail) == 1) {
        EXPECT(rail_barrier(rail) < 0);
        return 0;
    }
    CALL(rail_set_timeout_ms(rail, 200));
    CALL(rail_irecv(rail, data, 4, RAIL_F32, 1, 1, &request));
    status = rail_request_wait(request, 0);
    EXPECT(status == RAIL_E_TIMED_OUT && rail_request_test(request) == status);
    printf("late: %s\n", rail_request_error(request));
    return rail_request_free(request);
}

static void notifications(const rail_t *rail) {
    uint32_t from = 7, other = (uint32_t)(1 - rail_rank(rail));
    uint64_t words[RAIL_WORDS] = {0}, n;
    int status;

    CALL(rail_subscribe(rail));
    CALL(rail_barrier(rail));
    EXPECT(rail_notify(rail, (uint32_t)rail_rank(rail), words) == RAIL_E_INVALID);
    EXPECT(rail_notify(rail, 2, words) == RAIL_E_INVALID);
    for (n = 0; n < 200; n++) {
        words[0] = n, words[1] = ~n, words[2] = other;
        while ((status = rail_notify(rail, other, words)) == RAIL_PENDING) {
            usleep(50);
        }
        EXPECT(status == RAIL_OK);
    }
    for (n = 0; n < 200; n++) {
        while ((status = rail_poll_notification(rail, &from, words)) == RAIL_PENDING) {
            usleep(50);
        }
        EXPECT(status == RAIL_OK && from == other);
        EXPECT(words[0] == n && words[1] == ~n && words[2] == (uint64_t)rail_rank(rail));
    }
    EXPECT(rail_poll_notification(rail, &from, words) == RAIL_PENDING);
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
    if (strcmp(what, "late") == 0) {
        return nobody_sends(rail);
    }
    if (strcmp(what, "notify") == 0) {
        notifications(rail);
        CALL(rail_barrier(rail));
        CALL(rail_finalize(rail));
        printf("all notified\n");
        return 0;
    }
    every_call(rail);
    every_call_without_waiting(rail);
    told_when_done(rail);
    shared_memory(rail);
    a_panic_is_a_status(rail);
    CALL(rail_finalize(rail));
    printf("all calls right\n");
    return 0;
}
