/*
 * Options --rail-* of sbatch, srun and salloc, for jobs whose servers Railyard holds: they are checked where they are given, and reach PrologSlurmctld
 * (`railctl slurm prolog`) as variables. docs/slurm.md
 *
 * Slurm loads what was built for its own version:
 *     cc -shared -fPIC -O2 -Wall -o /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_railyard.so spank_railyard.c
 *     echo 'optional spank_railyard.so' >> /etc/slurm/plugstack.conf
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

SPANK_PLUGIN(railyard, 1)

enum { LONGEST = 16 };

/* One option: a number within bounds, one of some words, or neither, which is a switch. */
struct rail_option {
    const char *variable;
    long least;
    long most;
    const char *words[4];
    char value[LONGEST];
    struct spank_option spank;
};

static int take(int which, const char *text, int remote);

#define OPTION(which, option_name, argument, help) \
    { .name = option_name, .arginfo = argument, .usage = help, .has_arg = (argument) != NULL, .val = which, .cb = take }

/* Bounds are those of rail.v1.Gang, RailRequest and EngineOptions; what this lets through, the controller checks again. */
static struct rail_option options[] = {
    { "RAIL_RANKS", 1, 256, { NULL }, "",
      OPTION(0, "rail-ranks", "COUNT", "ranks that Railyard's engine expects on each server: tasks of a step that uses it") },
    { "RAIL_COUNT", 1, 64, { NULL }, "",
      OPTION(1, "rail-count", "COUNT", "rails that each server must have usable; all of the fabric if left out") },
    { "RAIL_PARTIAL", 0, 0, { NULL }, "",
      OPTION(2, "rail-partial", NULL, "any rails that all servers share will do, and the job may go on with fewer") },
    { "RAIL_AVOID_DRAINED", 0, 0, { NULL }, "",
      OPTION(3, "rail-avoid-drained", NULL, "rather not start than use a rail that is being drained") },
    { "RAIL_CERTIFY", 0, 0, { "warn", "require", NULL }, "",
      OPTION(4, "rail-certify", "warn|require", "measure the servers before the job starts, and say so, or do not start, where they fall short") },
    { "RAIL_CHECKSUM", 0, 0, { NULL }, "",
      OPTION(5, "rail-checksum", NULL, "checksums on all that goes over rails") },
    { "RAIL_PROTECTION", 0, 0, { "none", "integrity", "encrypted", NULL }, "",
      OPTION(6, "rail-protection", "none|integrity|encrypted", "what keeps others from changing, or reading, what goes over rails") },
};

enum { COUNT = sizeof(options) / sizeof(options[0]) };

static int take_number(struct rail_option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < option->least || number > option->most) {
        slurm_error("--%s: '%s' is no number from %ld to %ld", option->spank.name, text, option->least, option->most);
        return -1;
    }
    return 0;
}

static int take_word(struct rail_option *option, const char *text)
{
    for (const char **word = option->words; *word != NULL; word++) {
        if (strcmp(*word, text) == 0)
            return 0;
    }
    slurm_error("--%s: '%s' is not one of %s", option->spank.name, text, option->spank.arginfo);
    return -1;
}

/* Slurm calls this for each option that was given; on servers once more, where it changes nothing. */
static int take(int which, const char *text, int remote)
{
    if (remote)
        return 0;
    struct rail_option *option = &options[which];
    int bad = 0;
    if (option->spank.has_arg == 0)
        text = "1";
    else if (text == NULL || strlen(text) >= LONGEST) {
        slurm_error("--%s wants %s", option->spank.name, option->spank.arginfo);
        return -1;
    } else if (option->words[0] != NULL)
        bad = take_word(option, text);
    else
        bad = take_number(option, text);
    if (bad == 0)
        strcpy(option->value, text);
    return bad;
}

static int is_submitting(void)
{
    spank_context_t context = spank_context();
    return context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR;
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (int i = 0; i < COUNT; i++) {
        if (spank_option_register(spank, &options[i].spank) != ESPANK_SUCCESS) {
            slurm_error("railyard: --%s cannot be made an option", options[i].spank.name);
            return -1;
        }
    }
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (!is_submitting())
        return 0;
    for (int i = 0; i < COUNT; i++) {
        if (options[i].value[0] == '\0')
            continue;
        spank_err_t done = spank_job_control_setenv(spank, options[i].variable, options[i].value, 1);
        if (done != ESPANK_SUCCESS) {
            slurm_error("railyard: --%s cannot be handed to the job: %s", options[i].spank.name, spank_strerror(done));
            return -1;
        }
    }
    return 0;
}
