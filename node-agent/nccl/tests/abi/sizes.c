/* Sizes and offsets of NCCL's interface for network plugins, written from its facts: one line for each, which a test compares with the
 * library's own. With UPSTREAM defined the same lines are measured on NCCL's own headers. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef UPSTREAM
#include "net.h"
#define NAMED(ours, theirs) theirs
typedef ncclNetVDeviceProps_v11_t device4;
typedef ncclNetVDeviceProps_v12_t device8;
typedef ncclNetProperties_v8_t props8;
typedef ncclNetProperties_v9_t props9;
typedef ncclNetProperties_v10_t props10;
typedef ncclNetProperties_v11_t props11;
typedef ncclNetProperties_v12_t props12;
typedef ncclNet_v8_t net8;
typedef ncclNet_v9_t net9;
typedef ncclNet_v10_t net10;
typedef ncclNet_v11_t net11;
typedef ncclNet_v12_t net12;
typedef ncclNetCommConfig_v12_t config;
typedef ncclNetAttr_v12_t attributes;
typedef ncclNetDeviceHandle_t offload;
#else
#define NAMED(ours, theirs) ours
typedef int (*entry)(void);
typedef struct { int count; int devices[4]; } device4;
typedef struct { int count; int devices[8]; } device8;
#define HEAD char *name; char *path; uint64_t guid; int pointers; int global;
#define BODY int speed; int port; float latency; int comms; int receives; int kind; int version;
#define TAIL size_t p2p; size_t coll;
typedef struct { HEAD BODY } props8;
typedef struct { HEAD int flush; BODY device4 virt; TAIL } props9;
typedef props9 props10;
typedef struct { HEAD int flush; BODY device4 virt; TAIL int multi; } props11;
typedef struct { HEAD int flush; BODY device8 virt; TAIL int multi; int16_t rail; int16_t plane; } props12;
#define EARLY const char *name; entry init, devices, properties, listen, connect, accept, reg, reg_dma, dereg, isend, irecv, flush, test, \
    close_send, close_recv, close_listen, device_mr, consumed;
typedef struct { EARLY } net8;
typedef struct { EARLY entry make; } net9;
typedef net9 net10;
typedef struct { EARLY entry make, finalize, attr; } net11;
typedef net11 net12;
typedef struct { int traffic_class; } config;
typedef struct { int32_t most_peers, least_peers, most_flows, least_flows; } side;
typedef struct { side send, recv; uint32_t op, algo, proto; } attributes;
typedef struct { int kind; int version; void *handle; size_t size; int progress; } offload;
#endif

#define SIZE(type) printf("size %s %zu\n", #type, sizeof(type))
#define AT(type, label, ours, theirs) printf("at %s %s %zu\n", #type, label, offsetof(type, NAMED(ours, theirs)))

#define PROPERTIES(type) \
    SIZE(type); \
    AT(type, "name", name, name); \
    AT(type, "path", path, pciPath); \
    AT(type, "guid", guid, guid); \
    AT(type, "pointers", pointers, ptrSupport); \
    AT(type, "global", global, regIsGlobal); \
    AT(type, "speed", speed, speed); \
    AT(type, "port", port, port); \
    AT(type, "latency", latency, latency); \
    AT(type, "comms", comms, maxComms); \
    AT(type, "receives", receives, maxRecvs); \
    AT(type, "kind", kind, netDeviceType); \
    AT(type, "version", version, netDeviceVersion)

#define LATER(type) \
    AT(type, "flush", flush, forceFlush); \
    AT(type, "virtual", virt, vProps); \
    AT(type, "p2p", p2p, maxP2pBytes); \
    AT(type, "coll", coll, maxCollBytes)

#define TABLE(type) \
    SIZE(type); \
    AT(type, "name", name, name); \
    AT(type, "init", init, init); \
    AT(type, "devices", devices, devices); \
    AT(type, "properties", properties, getProperties); \
    AT(type, "listen", listen, listen); \
    AT(type, "connect", connect, connect); \
    AT(type, "accept", accept, accept); \
    AT(type, "reg", reg, regMr); \
    AT(type, "reg_dma", reg_dma, regMrDmaBuf); \
    AT(type, "dereg", dereg, deregMr); \
    AT(type, "isend", isend, isend); \
    AT(type, "irecv", irecv, irecv); \
    AT(type, "flush", flush, iflush); \
    AT(type, "test", test, test); \
    AT(type, "close_send", close_send, closeSend); \
    AT(type, "close_recv", close_recv, closeRecv); \
    AT(type, "close_listen", close_listen, closeListen); \
    AT(type, "device_mr", device_mr, getDeviceMr); \
    AT(type, "consumed", consumed, irecvConsumed)

int main(void) {
    PROPERTIES(props8);
    PROPERTIES(props9);
    LATER(props9);
    PROPERTIES(props10);
    LATER(props10);
    PROPERTIES(props11);
    LATER(props11);
    AT(props11, "multi", multi, maxMultiRequestSize);
    PROPERTIES(props12);
    LATER(props12);
    AT(props12, "multi", multi, maxMultiRequestSize);
    AT(props12, "rail", rail, railId);
    AT(props12, "plane", plane, planeId);
    TABLE(net8);
    TABLE(net9);
    AT(net9, "make", make, makeVDevice);
    TABLE(net10);
    AT(net10, "make", make, makeVDevice);
    TABLE(net11);
    AT(net11, "make", make, makeVDevice);
    AT(net11, "finalize", finalize, finalize);
    AT(net11, "attr", attr, setNetAttr);
    TABLE(net12);
    AT(net12, "make", make, makeVDevice);
    AT(net12, "finalize", finalize, finalize);
    AT(net12, "attr", attr, setNetAttr);
    SIZE(device4);
    SIZE(device8);
    SIZE(config);
    SIZE(attributes);
    SIZE(offload);
    return 0;
}
