/* Submits held jobs through libslurm from so many processes, for so many seconds: as fast as each is answered (rate 0), or so
 * many per second in all, whatever the answers take. Prints the time and then each submit's milliseconds, counted from when
 * it was due.
 *
 *   gcc -O2 slurm_submit.c -o slurm_submit -lslurm && SLURM_CONF=... ./slurm_submit PROCESSES SECONDS RATE
 */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 200000

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void sleep_until(double due)
{
	double left = due - now();
	if (left > 0)
		usleep((useconds_t)(left * 1e6));
}

static int submit(void)
{
	char *environment[] = { "PATH=/usr/bin:/bin", NULL };
	submit_response_msg_t *answer = NULL;
	job_desc_msg_t job;
	slurm_init_job_desc_msg(&job);
	job.user_id = getuid();
	job.group_id = getgid();
	job.min_nodes = 1;
	job.name = "bench";
	job.script = "#!/bin/sh\ntrue\n";
	job.work_dir = "/tmp";
	job.std_out = "/dev/null";
	job.environment = environment;
	job.env_size = 1;
	job.time_limit = 5;
	job.priority = 0;
	if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS)
		return -1;
	slurm_free_submit_response_response_msg(answer);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	int processes = atoi(argv[1]);
	double seconds = atof(argv[2]), rate = atof(argv[3]);
	size_t bytes = sizeof(double) * MOST * processes;
	double *taken = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (taken == MAP_FAILED)
		return 3;
	slurm_init(NULL);
	double begin = now() + 0.2, end = begin + seconds;
	for (int which = 0; which < processes; which++) {
		if (fork() != 0)
			continue;
		double *mine = taken + (size_t)MOST * which;
		for (int at = 0; at < MOST; at++) {
			double due = rate > 0 ? begin + ((double)at * processes + which) / rate : at == 0 ? begin : now();
			if (due >= end)
				break;
			sleep_until(due);
			if (submit() != 0) {
				slurm_perror("submit");
				_exit(1);
			}
			mine[at] = (now() - due) * 1e3;
		}
		_exit(0);
	}
	int status, failed = 0;
	while (wait(&status) > 0)
		failed |= status;
	printf("%f\n", now() - begin);
	for (size_t at = 0; at < (size_t)MOST * processes; at++)
		if (taken[at] > 0)
			printf("%f\n", taken[at]);
	return failed != 0;
}
