/*
 * rail.h - collectives over all rails of a job, for C and everything that can call C.
 *
 * A process that was started as a rank of a job attaches to the engine on its server and calls collectives on its own
 * memory. The engine moves the bytes over all rails; this library opens no network connection, and starts one thread only
 * when a program asks for callbacks or for the event descriptor.
 *
 * Rules
 *  - Every rank of the job calls the same collectives in the same order, with equal count, dtype, op and root. Whether a rank
 *    waits for its call (rail_all_reduce) or not (rail_iall_reduce), and which memory it uses, may differ.
 *  - Calls without an i return when they are complete: the output is there and the input may be changed.
 *  - Calls with an i return at once with a request. They begin in the order in which they are called and may end in any.
 *  - A handle and a request may be used from several threads; the order of collectives is then the callers' affair.
 *  - Every call ends: by the engine's time limit for operations, or by rail_set_timeout_ms.
 *  - 0 or a positive number is success, a negative number (enum rail_status) is failure; rail_last_error() says more.
 *  - After RAIL_E_RANK_LOST, RAIL_E_PEER_LOST, RAIL_E_TIMED_OUT, RAIL_E_MISMATCH and the like the job's collectives have
 *    failed on all ranks, and later calls fail the same way: end the process, the job's policy decides what follows.
 *  - The result of a call depends on its arguments on all ranks and on the ranks' places alone, to the bit.
 *  - Nothing ever unwinds out of this library. Callbacks must not throw into it.
 *  - After fork(), only the parent may use its handles.
 *
 * Memory: calls take any memory; it is copied once on its way in and once on its way out. Memory of rail_alloc is shared with
 * the engine and not copied on this side. Memory of a GPU can be an operand once it is registered (rail_gpu_register).
 *
 * Values of enums never change; new ones may be added within one ABI version. A library of ABI version n serves programs that
 * were made for any version up to n.
 */
#ifndef RAIL_H
#define RAIL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; rail_abi_version() gives that of the library that was loaded. */
#define RAIL_ABI_VERSION 4

/* One attached rank. */
typedef struct rail rail_t;

/* A call under way (since version 2). */
typedef struct rail_request rail_request_t;

enum rail_status {
    RAIL_OK = 0,
    RAIL_PENDING = 1,         /* of requests: not complete yet; of notifications: none, or not now */
    RAIL_E_INVALID = -1,      /* an argument or the environment makes no sense */
    RAIL_E_MISMATCH = -2,     /* ranks made different calls */
    RAIL_E_DENIED = -3,       /* the engine does not serve this process */
    RAIL_E_EXHAUSTED = -4,    /* a limit was reached: buffers, bytes, calls under way */
    RAIL_E_TIMED_OUT = -5,    /* not complete in time */
    RAIL_E_RANK_LOST = -6,    /* another rank of the job ended */
    RAIL_E_PEER_LOST = -7,    /* another node of the job is gone */
    RAIL_E_RAIL_LOST = -8,    /* rails to another node are gone */
    RAIL_E_STOPPED = -9,      /* the job is being stopped */
    RAIL_E_NOT_READY = -10,   /* the engine is not ready */
    RAIL_E_PROTOCOL = -11,    /* library and engine do not understand each other */
    RAIL_E_INTERNAL = -12,    /* the engine failed */
    RAIL_E_ENGINE_LOST = -13, /* the engine is gone */
    RAIL_E_PANIC = -100       /* a bug in this library */
};

/* Element types, in the machine's byte order. */
enum rail_dtype {
    RAIL_F32 = 1,
    RAIL_F64 = 2,
    RAIL_I32 = 3,
    RAIL_I64 = 4,
    RAIL_F16 = 5,  /* IEEE 754 half */
    RAIL_BF16 = 6  /* 8 exponent bits */
};

/* Reductions. Integers wrap; a NaN in any input of min or max gives NaN. */
enum rail_op {
    RAIL_SUM = 1,
    RAIL_MIN = 2,
    RAIL_MAX = 3,
    RAIL_PROD = 4
};

/* The ABI version of the loaded library. */
uint32_t rail_abi_version(void);

/* Text of this thread's latest failed call, "" if there is none. Valid until this thread's next call of the library. */
const char *rail_last_error(void);

/* Short fixed text of a status. Valid for ever. */
const char *rail_strerror(int status);

/*
 * Attaches to the engine that the environment names and stores a handle in *rail (NULL on failure).
 * Reads RAIL_ENGINE_SOCKET and RANK, and where they are set WORLD_SIZE and RAIL_JOB_UID.
 */
int rail_init_from_env(rail_t **rail);

/*
 * Leaves the job and frees the handle, also if it returns a failure. NULL does nothing. Calls under way are given up; their
 * requests remain to be freed. A process that returns from main or calls exit() without it leaves as well; one that
 * crashes or calls _exit() is a lost rank for the others.
 */
int rail_finalize(rail_t *rail);

/* The world: all are 0 or more, or a negative status. */
int rail_rank(const rail_t *rail);        /* this rank's place in the job */
int rail_size(const rail_t *rail);        /* ranks of the job */
int rail_local_rank(const rail_t *rail);  /* this rank's place among the ranks of its node */
int rail_local_size(const rail_t *rail);  /* ranks on this node */
int rail_node(const rail_t *rail);        /* this node's place in the job */
int rail_nodes(const rail_t *rail);       /* nodes of the job */

/* Limits each of the calls that follow, on all threads; 0 returns to the engine's own limit. */
int rail_set_timeout_ms(const rail_t *rail, uint32_t milliseconds);

/* Nobody goes on before everybody is here. */
int rail_barrier(const rail_t *rail);

/*
 * output[i] = op over all ranks of input[i], i < count. input may equal output. Otherwise the two must not overlap, here and
 * below, but that input of rail_all_gather, or output of rail_reduce_scatter, may be this rank's block of the other one. After a
 * call that failed, output holds anything.
 */
int rail_all_reduce(const rail_t *rail, const void *input, void *output, size_t count, int dtype, int op);

/* output (size x count elements): block r is the input (count elements) of rank r. */
int rail_all_gather(const rail_t *rail, const void *input, void *output, size_t count, int dtype);

/* input (size x count elements): rank r gets the reduction of block r in output (count elements). */
int rail_reduce_scatter(const rail_t *rail, const void *input, void *output, size_t count, int dtype, int op);

/* data (count elements) of every rank becomes that of rank root. */
int rail_broadcast(const rail_t *rail, void *data, size_t count, int dtype, uint32_t root);

/* Both have size x count elements: block r of output becomes this rank's block of rank r's input. */
int rail_all_to_all(const rail_t *rail, const void *input, void *output, size_t count, int dtype);

/* Messages between two ranks; those with equal ends and equal tag arrive in the order in which they were sent. */
int rail_send(const rail_t *rail, const void *data, size_t count, int dtype, uint32_t to, uint32_t tag);
int rail_recv(const rail_t *rail, void *data, size_t count, int dtype, uint32_t from, uint32_t tag);

/*
 * The same calls without waiting (since version 2): they return RAIL_OK and a request in *request, or a failure and NULL.
 *
 * Until the request is complete, output and data of rail_irecv and rail_ibroadcast belong to the call, and so does input in
 * memory of rail_alloc; other input may be changed at once. Calls among the ranks of one server are done by whoever waits for
 * or tests one of them, or by this library's thread; others go on by themselves. At most as many calls can be under way as
 * the engine is told to allow a rank (64 by default, among the ranks of one server one less): the next one is refused with
 * RAIL_E_EXHAUSTED, which harms nothing.
 */
int rail_ibarrier(const rail_t *rail, rail_request_t **request);
int rail_iall_reduce(const rail_t *rail, const void *input, void *output, size_t count, int dtype, int op,
                     rail_request_t **request);
int rail_iall_gather(const rail_t *rail, const void *input, void *output, size_t count, int dtype,
                     rail_request_t **request);
int rail_ireduce_scatter(const rail_t *rail, const void *input, void *output, size_t count, int dtype, int op,
                         rail_request_t **request);
int rail_ibroadcast(const rail_t *rail, void *data, size_t count, int dtype, uint32_t root, rail_request_t **request);
int rail_iall_to_all(const rail_t *rail, const void *input, void *output, size_t count, int dtype,
                     rail_request_t **request);
int rail_isend(const rail_t *rail, const void *data, size_t count, int dtype, uint32_t to, uint32_t tag,
               rail_request_t **request);
int rail_irecv(const rail_t *rail, void *data, size_t count, int dtype, uint32_t from, uint32_t tag,
               rail_request_t **request);

/* RAIL_OK if the call is complete, RAIL_PENDING if not yet, else why it failed; the same again when asked again. */
int rail_request_test(const rail_request_t *request);

/*
 * As rail_request_test, after waiting for the call: for at most so many milliseconds, or with 0 until it is over, which its
 * own time limit brings about. RAIL_PENDING ends nothing: wait again.
 */
int rail_request_wait(const rail_request_t *request, uint32_t milliseconds);

/* Text of the call's failure, "" if it has none (yet). Valid until the request is freed. */
const char *rail_request_error(const rail_request_t *request);

/*
 * Has callback(status, context) called once when the call is over, with what rail_request_test would return: on a thread of
 * the library, on one that tests or waits for the request, or at once where it is over already. One callback a request. It
 * may call this library, also to begin calls and to free the request, but should not wait: other callbacks wait for it.
 */
typedef void (*rail_callback_t)(int status, void *context);
int rail_request_on_done(const rail_request_t *request, rail_callback_t callback, void *context);

/*
 * Frees a request; NULL does nothing. A call that is not over goes on (the other ranks count on it), but its result is not
 * written to ordinary memory any more, and its callback is not called if it has not begun.
 */
int rail_request_free(rail_request_t *request);

/*
 * A descriptor for poll(), epoll or select (since version 2): readable when calls begun after this call are over; reading 8
 * bytes from it (how many, uint64_t) resets it. It belongs to the handle: do not close it. A negative number is a failure.
 */
int rail_event_fd(const rail_t *rail);

/*
 * Memory that is shared with the engine (since version 2): at least bytes, zeroed, aligned to pages, in *memory. Calls find
 * out by its address; any part of it can be an operand. What a rank may have in all is the engine's limit (8 GiB by default),
 * RAIL_E_EXHAUSTED says that it is reached. rail_finalize frees what is left.
 */
int rail_alloc(const rail_t *rail, size_t bytes, void **memory);
int rail_free(const rail_t *rail, void *memory);

/* The way that operands on a GPU take (since version 3). */
enum rail_way {
    RAIL_WAY_STAGED = 1,  /* copied through host memory by the call itself */
    RAIL_WAY_DMA_BUF = 2  /* NICs read inputs from the GPU, where no processor needs them; the rest is staged */
};

/*
 * Registers bytes of a GPU's memory from memory on, a pointer of CUDA or HIP (since version 3): any part of it can be an operand
 * from then on. Gives a positive number (enum rail_way), and the reason in rail_last_way(), or a failure: no library knows GPUs
 * here, the range is not inside one allocation of one GPU, or it is managed memory. The driver's library is loaded by the first
 * call. Ranges must not overlap. The memory must stay allocated until it is released; rail_finalize releases what is left.
 *
 * The GPU must be done with operands before a call begins (cudaStreamSynchronize), and leave them alone until it is over: inputs
 * too, whichever way they take. What a call wrote is on the GPU when it is over.
 */
int rail_gpu_register(const rail_t *rail, const void *memory, size_t bytes);

/* Releases what was registered from memory on; RAIL_E_INVALID while calls under way use it. NULL does nothing (since version 3). */
int rail_gpu_release(const rail_t *rail, const void *memory);

/*
 * Which way the bytes took, and why, as "dma-buf: ..." or "staged: ..." (since version 3): of this thread's latest registration or
 * call that waited, and of a request. "" where no GPU was in it. Valid until this thread's next one, or until the request is freed.
 */
const char *rail_last_way(void);
const char *rail_request_way(const rail_request_t *request);

/* The words of one notification (since version 4). */
#define RAIL_WORDS 3

/*
 * Notifications (since version 4): a few words from one rank to another, which need no call of the other one and have no time limit.
 * All of one rank to another one arrive once, in the order in which they were made, whatever rails die; nothing is said of their order
 * beside calls. Who has not subscribed when one comes does not get it. A rank that has subscribed must take them: more than 65536 that
 * nobody took break its connection. Where the job fails, each later call of a rank that has subscribed fails with the cause.
 */
int rail_subscribe(const rail_t *rail);

/* Notifies rank to, which is not this one: RAIL_OK, or RAIL_PENDING if the engine takes nothing at the moment: try again later. */
int rail_notify(const rail_t *rail, uint32_t to, const uint64_t words[RAIL_WORDS]);

/* The oldest notification that nobody has taken, without waiting: RAIL_OK, or RAIL_PENDING if there is none. */
int rail_poll_notification(const rail_t *rail, uint32_t *from, uint64_t words[RAIL_WORDS]);

#ifdef __cplusplus
}
#endif

#endif
