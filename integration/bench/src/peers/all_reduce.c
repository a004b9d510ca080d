/* One rank of an MPI library in the engine's bench: does what each line of its pipe says, answers with one line of JSON.
 * Waits in read(), so that it uses no processor while others are measured. The lines are those of `bench-rank --serve`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static FILE *pipe_of(const char *name, int rank, const char *mode) {
    char path[4096];
    const char *folder = getenv("BENCH_FOLDER");
    snprintf(path, sizeof path, "%s/%s.%d", folder ? folder : ".", name, rank);
    FILE *file = fopen(path, mode);
    if (!file) {
        perror(path);
        exit(2);
    }
    return file;
}

static void print_list(FILE *to, const char *name, const long long *values, int count) {
    fprintf(to, "\"%s\":[", name);
    for (int i = 0; i < count; i++) fprintf(to, i ? ",%lld" : "%lld", values[i]);
    fputs("],", to);
}

static void perform(FILE *to, int rank, int size, long bytes, int iterations, int warmup, int verify) {
    long count = bytes / 4, bad = 0;
    float *values = calloc(count ? count : 1, sizeof *values);
    long long *start = calloc(iterations, sizeof *start), *end = calloc(iterations, sizeof *end);
    for (int i = 0; i < warmup; i++) MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    long long used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < iterations; i++) {
        if (verify)
            for (long j = 0; j < count; j++) values[j] = (float)((rank + 1) * (j % 97 + 1 + i % 5));
        start[i] = clock_ns(CLOCK_MONOTONIC);
        MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        end[i] = clock_ns(CLOCK_MONOTONIC);
        if (verify)
            for (long j = 0; j < count; j++) bad += values[j] != (float)(size * (size + 1) / 2 * (j % 97 + 1 + i % 5));
    }
    used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used;
    fputc('{', to);
    print_list(to, "start", start, iterations);
    print_list(to, "end", end, iterations);
    fprintf(to, "\"bad\":%ld,\"cpu_ns\":%lld}\n", bad, used);
    fflush(to);
    free(values);
    free(start);
    free(end);
}

int main(int argc, char **argv) {
    int rank, size, iterations, warmup, verify;
    long bytes;
    char line[512];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    FILE *from = pipe_of("in", rank, "r"), *to = pipe_of("out", rank, "w");
    fputs("ready\n", to);
    fflush(to);
    while (fgets(line, sizeof line, from))
        if (sscanf(line, "bytes=%ld iterations=%d warmup=%d verify=%d", &bytes, &iterations, &warmup, &verify) == 4)
            perform(to, rank, size, bytes, iterations, warmup, verify);
    MPI_Finalize();
    return 0;
}
