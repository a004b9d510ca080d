/* Offsets of what is read of NCCL's interface for profilers, and sizes of its tables, as sizes.c has those of network plugins. With UPSTREAM
 * defined the same lines are measured on NCCL's own headers. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef UPSTREAM
#include "err.h"
#include "common.h"
typedef int ncclProfilerEventState_t;
typedef pid_t ncclPid_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v4_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v5_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v6_t;
#include "profiler/profiler_v4.h"
#include "profiler/profiler_v5.h"
#include "profiler/profiler_v6.h"
typedef ncclProfilerEventDescr_v4_t event4;
typedef ncclProfilerEventDescr_v5_t event5;
typedef ncclProfilerEventDescr_v6_t event6;
typedef ncclProfiler_v4_t table4;
typedef ncclProfiler_v5_t table5;
typedef ncclProfiler_v6_t table6;
#else
typedef int (*entry)(void);
typedef struct { uint64_t seqNumber; const char *func; const void *sendBuff; void *recvBuff; size_t count; int root; const char *datatype;
    uint8_t nChannels, nWarps; const char *algo, *proto; } coll_event;
typedef struct { const char *func; void *buff; const char *datatype; size_t count; int peer; } p2p_event;
typedef struct { pid_t pid; uint8_t channelId; int peer, nSteps, chunkSize, isSend; } op_event;
#define EVENT(kind) struct { kind type; void *parentObj; int rank; union { coll_event coll; p2p_event p2p; op_event proxyOp; }; }
typedef EVENT(uint8_t) event4;
typedef EVENT(uint64_t) event5;
typedef event5 event6;
typedef struct { const char *name; entry init, startEvent, stopEvent, recordEventState, finalize; } table4;
typedef table4 table5;
typedef table4 table6;
#endif

#define AT(type, label, field) printf("at %s %s %zu\n", #type, label, offsetof(type, field))
#define EVENTS(type) \
    AT(type, "parent", parentObj); AT(type, "rank", rank); \
    AT(type, "coll.sequence", coll.seqNumber); AT(type, "coll.function", coll.func); AT(type, "coll.count", coll.count); \
    AT(type, "coll.algorithm", coll.algo); AT(type, "coll.protocol", coll.proto); \
    AT(type, "p2p.function", p2p.func); AT(type, "p2p.count", p2p.count); AT(type, "p2p.peer", p2p.peer); \
    AT(type, "op.channel", proxyOp.channelId); AT(type, "op.peer", proxyOp.peer); AT(type, "op.sends", proxyOp.isSend)
#define TABLE(type) \
    printf("size %s %zu\n", #type, sizeof(type)); \
    AT(type, "name", name); AT(type, "init", init); AT(type, "start", startEvent); AT(type, "stop", stopEvent); \
    AT(type, "record", recordEventState); AT(type, "end", finalize)

int main(void) {
    EVENTS(event4);
    EVENTS(event5);
    EVENTS(event6);
    TABLE(table4);
    TABLE(table5);
    TABLE(table6);
    return 0;
}
