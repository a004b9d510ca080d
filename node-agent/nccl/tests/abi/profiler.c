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
typedef ncclProfilerEventState_t ncclProfilerEventState_v1_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v2_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v3_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v4_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v5_t;
typedef ncclProfilerEventState_t ncclProfilerEventState_v6_t;
#include "profiler/profiler_v1.h"
#include "profiler/profiler_v2.h"
#include "profiler/profiler_v3.h"
#include "profiler/profiler_v4.h"
#include "profiler/profiler_v5.h"
#include "profiler/profiler_v6.h"
#define TYPES(version) \
    typedef ncclProfilerEventDescr_v##version##_t event##version; \
    typedef ncclProfilerEventStateArgs_v##version##_t state##version; \
    typedef ncclProfiler_v##version##_t table##version;
TYPES(1) TYPES(2) TYPES(3) TYPES(4) TYPES(5) TYPES(6)
#else
typedef int (*entry)(void);
typedef struct { const char *name; uint64_t commHash, seqNumber; uint8_t func; const void *sendBuff; void *recvBuff; size_t count; int root;
    uint8_t datatype; uint32_t op; size_t trafficBytes; uint8_t nMaxChannels, nWarps, algo, proto; int isCollnet, isNvls; } coll_event1;
typedef struct { const char *name; uint64_t commHash; uint8_t func; void *buff; uint8_t datatype; size_t count; int peer; } p2p_event1;
typedef struct { const char *name; uint64_t commHash, seqNumber; const char *func; const void *sendBuff; void *recvBuff; size_t count; int root;
    const char *datatype; size_t trafficBytes; uint8_t nMaxChannels, nWarps; const char *algo, *proto; } coll_event2;
typedef struct { const char *name; uint64_t commHash; const char *func; void *buff; const char *datatype; size_t count; int peer; } p2p_event2;
typedef struct { const char *name; uint64_t commHash, seqNumber; const char *func; const void *sendBuff; void *recvBuff; size_t count; int root;
    const char *datatype; uint8_t nMaxChannels, nWarps; const char *algo, *proto; } coll_event3;
typedef struct { uint64_t seqNumber; const char *func; const void *sendBuff; void *recvBuff; size_t count; int root; const char *datatype;
    uint8_t nChannels, nWarps; const char *algo, *proto; } coll_event4;
typedef struct { const char *func; void *buff; const char *datatype; size_t count; int peer; } p2p_event4;
typedef struct { pid_t pid; uint8_t channelId; int peer, nSteps, chunkSize, isSend; } op_event;
#define EVENT(kind, coll_event, p2p_event) struct { kind type; void *parentObj; int rank; \
    union { coll_event coll; p2p_event p2p; op_event proxyOp; struct { int step; } proxyStep; }; }
typedef EVENT(uint8_t, coll_event1, p2p_event1) event1;
typedef EVENT(uint8_t, coll_event2, p2p_event2) event2;
typedef EVENT(uint8_t, coll_event3, p2p_event2) event3;
typedef EVENT(uint8_t, coll_event4, p2p_event4) event4;
typedef EVENT(uint64_t, coll_event4, p2p_event4) event5;
typedef event5 event6;
typedef union { struct { size_t transSize; int steps; } proxyOp; struct { int appendedProxyOps; } proxyCtrl; } state1;
typedef state1 state2;
typedef state1 state3;
typedef union { struct { size_t transSize; } proxyStep; struct { int appendedProxyOps; } proxyCtrl; } state4;
typedef state4 state5;
typedef state4 state6;
typedef struct { const char *name; entry init, startEvent, stopEvent, recordEventState, finalize; } table1;
typedef table1 table2;
typedef table1 table3;
typedef table1 table4;
typedef table1 table5;
typedef table1 table6;
#endif

#define AT(type, label, field) printf("at %s %s %zu\n", #type, label, offsetof(type, field))
#define EVENTS(type) \
    AT(type, "parent", parentObj); AT(type, "rank", rank); \
    AT(type, "coll.sequence", coll.seqNumber); AT(type, "coll.function", coll.func); AT(type, "coll.count", coll.count); \
    AT(type, "coll.algorithm", coll.algo); AT(type, "coll.protocol", coll.proto); \
    AT(type, "p2p.function", p2p.func); AT(type, "p2p.count", p2p.count); AT(type, "p2p.peer", p2p.peer); \
    AT(type, "op.pid", proxyOp.pid); AT(type, "op.channel", proxyOp.channelId); AT(type, "op.peer", proxyOp.peer); \
    AT(type, "op.sends", proxyOp.isSend); AT(type, "step", proxyStep.step)
/* Up to v3 calls name their communicator. */
#define NAMED(type) EVENTS(type); AT(type, "coll.hash", coll.commHash); AT(type, "p2p.hash", p2p.commHash)
#define BYTES(type, field) AT(type, "bytes", field); printf("bytes %s %zu\n", #type, sizeof(((type *)0)->field))
#define OPERATIONS(type) BYTES(type, proxyOp.transSize); AT(type, "steps", proxyOp.steps)
#define TABLE(type) \
    printf("size %s %zu\n", #type, sizeof(type)); \
    AT(type, "name", name); AT(type, "init", init); AT(type, "start", startEvent); AT(type, "stop", stopEvent); \
    AT(type, "record", recordEventState); AT(type, "end", finalize)

int main(void) {
    NAMED(event1);
    NAMED(event2);
    NAMED(event3);
    EVENTS(event4);
    EVENTS(event5);
    EVENTS(event6);
    OPERATIONS(state1);
    OPERATIONS(state2);
    OPERATIONS(state3);
    BYTES(state4, proxyStep.transSize);
    BYTES(state5, proxyStep.transSize);
    BYTES(state6, proxyStep.transSize);
    TABLE(table1);
    TABLE(table2);
    TABLE(table3);
    TABLE(table4);
    TABLE(table5);
    TABLE(table6);
    return 0;
}
