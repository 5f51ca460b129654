/* OpenSSL's asynchronous jobs (ASYNC_start_job(3)) for programs under the thread sanitizer.
 *
 * Those of libcrypto jump between stacks by longjmp, which the sanitizer takes for an error and ends the program. These do the same by
 * swapcontext(3) and tell it of each change. They are loaded before libcrypto (LD_PRELOAD); libssl and providers call them then.
 * Stacks are larger than the 32 KiB of libcrypto, since instrumented code takes more. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define STACK_LEN (1 << 20)

/* Answers of ASYNC_start_job, of openssl/async.h. */
enum { JOB_ERROR = 0, JOB_PAUSED = 2, JOB_FINISHED = 3 };

/* Of the sanitizer's interface, sanitizer/tsan_interface.h. */
void *__tsan_get_current_fiber(void) __attribute__((weak));
void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));

struct job {
    ucontext_t context;
    void *stack;
    void *fiber;
    int (*function)(void *);
    void *argument;
    void *waits;
    int result;
    int is_finished;
};

static __thread struct {
    ucontext_t context;
    void *fiber;
    struct job *running;
} own;

static void change(void *fiber, ucontext_t *from, ucontext_t *to) {
    if (__tsan_switch_to_fiber != NULL)
        __tsan_switch_to_fiber(fiber, 0);
    swapcontext(from, to);
}

static void begin(void) {
    struct job *job = own.running;
    job->result = job->function(job->argument);
    job->is_finished = 1;
    change(own.fiber, &job->context, &own.context);
}

static void release(struct job *job) {
    if (__tsan_destroy_fiber != NULL && job->fiber != NULL)
        __tsan_destroy_fiber(job->fiber);
    free(job->argument);
    free(job->stack);
    free(job);
}

static int prepare(struct job *job) {
    if (getcontext(&job->context) != 0)
        return 0;
    job->context.uc_stack.ss_sp = job->stack;
    job->context.uc_stack.ss_size = STACK_LEN;
    makecontext(&job->context, begin, 0);
    return 1;
}

static struct job *create(void *waits, int (*function)(void *), const void *argument, size_t len) {
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->waits = waits;
    job->function = function;
    job->stack = malloc(STACK_LEN);
    job->argument = malloc(len + 1);
    if (job->stack == NULL || job->argument == NULL || !prepare(job)) {
        release(job);
        return NULL;
    }
    if (argument != NULL)
        memcpy(job->argument, argument, len);
    if (__tsan_create_fiber != NULL)
        job->fiber = __tsan_create_fiber(0);
    return job;
}

int ASYNC_start_job(struct job **job, void *waits, int *result, int (*function)(void *), void *argument, size_t len) {
    struct job *running = *job != NULL ? *job : create(waits, function, argument, len);
    if (running == NULL || own.running != NULL)
        return JOB_ERROR;
    own.running = running;
    if (__tsan_get_current_fiber != NULL)
        own.fiber = __tsan_get_current_fiber();
    change(running->fiber, &own.context, &running->context);
    own.running = NULL;
    if (!running->is_finished) {
        *job = running;
        return JOB_PAUSED;
    }
    *result = running->result;
    *job = NULL;
    release(running);
    return JOB_FINISHED;
}

int ASYNC_pause_job(void) {
    struct job *job = own.running;
    if (job != NULL)
        change(own.fiber, &job->context, &own.context);
    return 1;
}

void *ASYNC_get_current_job(void) { return own.running; }

void *ASYNC_get_wait_ctx(struct job *job) { return job->waits; }

int ASYNC_is_capable(void) { return 1; }

int ASYNC_init_thread(size_t max, size_t init) {
    (void)max;
    (void)init;
    return 1;
}

void ASYNC_cleanup_thread(void) {}
