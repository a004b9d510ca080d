/*
 * rail.h - collectives over all rails of a job, for C and everything that can call C.
 *
 * A process that was started as a rank of a job attaches to the engine on its server and calls collectives on its own
 * memory. The engine moves the bytes over all rails; this library opens no network connection and starts no thread.
 *
 * Rules
 *  - Every rank of the job calls the same collectives in the same order, with equal count, dtype, op and root.
 *  - Calls return when they are complete: the output is there and the input may be changed.
 *  - A handle may be used from several threads; the order of collectives is then the callers' affair.
 *  - Every call ends: by the engine's time limit for operations, or by rail_set_timeout_ms.
 *  - 0 or a positive number is success, a negative number (enum rail_status) is failure; rail_last_error() says more.
 *  - After RAIL_E_RANK_LOST, RAIL_E_PEER_LOST, RAIL_E_TIMED_OUT, RAIL_E_MISMATCH and the like the job's collectives have
 *    failed on all ranks, and later calls fail the same way: end the process, the job's policy decides what follows.
 *  - After fork(), only the parent may use its handles.
 *
 * Values of enums never change; new ones may be added within one ABI version.
 */
#ifndef RAIL_H
#define RAIL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; rail_abi_version() gives that of the library that was loaded. */
#define RAIL_ABI_VERSION 1

/* One attached rank. */
typedef struct rail rail_t;

enum rail_status {
    RAIL_OK = 0,
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
 * Leaves the job and frees the handle, also if it returns a failure. NULL does nothing. A process that returns from main or
 * calls exit() without it leaves as well; one that crashes or calls _exit() is a lost rank for the others.
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

/* output[i] = op over all ranks of input[i], i < count. input may equal output, but must not overlap it otherwise. */
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

#ifdef __cplusplus
}
#endif

#endif
