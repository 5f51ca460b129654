/* What must not be done, done by a C program: every call returns an error and the program goes on. */
#include <ciphermill.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(call, wanted)                                                                                           \
    do {                                                                                                               \
        ciphermill_status got = (call);                                                                                \
        if (got != (wanted)) {                                                                                         \
            ciphermill_error error;                                                                                    \
            ciphermill_last_error(&error);                                                                             \
            fprintf(stderr, "%s:%d: %s: %d (%s)\n", __FILE__, __LINE__, #call, got, error.text);                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static ciphermill_mill *mill;
static ciphermill_suite sha256, gcm;

static ciphermill_error last(void)
{
    ciphermill_error error;
    ciphermill_last_error(&error);
    return error;
}

static void batches(void)
{
    _Alignas(64) static ciphermill_op ops[4];
    static unsigned char arena[4 * 96];
    for (uint32_t i = 0; i < 4; i++) {
        ops[i].input = i * 96;
        ops[i].input_len = 64;
        ops[i].tag = i * 96 + 64;
        ops[i].tag_len = 32;
    }
    ciphermill_batch good = { .suite = sha256, .ops = ops, .ops_len = 4, .arena = arena, .arena_len = sizeof arena };
    ciphermill_batch batch = good;

    EXPECT(ciphermill_run(NULL, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_run(mill, NULL, NULL, NULL), CIPHERMILL_MISUSE);
    batch.ops = NULL;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch.ops = (ciphermill_op *)((char *)ops + 8);
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch = good;
    batch.arena = NULL;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch = good;
    batch.ops_len = (size_t)-1;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch = good;
    batch.arena = (unsigned char *)ops;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch = good;
    batch.arena_len = 300;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    char rule[128];
    size_t rule_len = sizeof rule;
    if (last().op != 3 || ciphermill_reason_text(rule, &rule_len, last().reason) != CIPHERMILL_OK)
        exit(2);
    if (strcmp(rule, "the input ends past the arena") != 0 && strcmp(rule, "the tag ends past the arena") != 0)
        exit(3);
    batch = good;
    batch.suite = 12345;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch = good;
    batch.direction = 2;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_MISUSE);
    batch.direction = CIPHERMILL_DECRYPT;
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_REFUSED);
    /* Any byte may stand where a status should. */
    for (int status = 1; status < 256; status++) {
        ops[2].status = (uint8_t)status;
        ops[2].reason = (uint8_t)(255 - status);
        EXPECT(ciphermill_run(mill, NULL, &good, NULL), CIPHERMILL_MISUSE);
        if (last().op != 2)
            exit(4);
    }
    ops[2].status = 0;
    ciphermill_run_options options = { .struct_len = sizeof options, .engine = "abacus" };
    EXPECT(ciphermill_run(mill, NULL, &good, &options), CIPHERMILL_REFUSED);
    options.struct_len = 4096;
    EXPECT(ciphermill_run(mill, NULL, &good, &options), CIPHERMILL_MISUSE);
    options.struct_len = 0;
    EXPECT(ciphermill_run(mill, NULL, &good, &options), CIPHERMILL_MISUSE);
    ciphermill_report report = { 0 };
    EXPECT(ciphermill_run(mill, &report, &good, NULL), CIPHERMILL_OK);
    if (report.done != 4)
        exit(5);
    EXPECT(ciphermill_run(mill, NULL, &good, NULL), CIPHERMILL_MISUSE); /* they are done */
}

static void handles(void)
{
    ciphermill_digest *digest;
    EXPECT(ciphermill_digest_init(mill, NULL, sha256), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_digest_init(mill, &digest, gcm), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_digest_init(mill, &digest, sha256), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_update(digest, NULL, 1), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_digest_update(digest, NULL, 0), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_update(digest, (const unsigned char *)"", (size_t)-1), CIPHERMILL_MISUSE);
    unsigned char result[32];
    EXPECT(ciphermill_digest_final(digest, result, 31), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_digest_final(digest, result, 32), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_close(digest), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_close(digest), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_digest_close(NULL), CIPHERMILL_OK);
    EXPECT(ciphermill_mill_close((ciphermill_mill *)(void *)result), CIPHERMILL_MISUSE);

    const ciphermill_key no_key = { 0, 0 };
    ciphermill_multi_part *parts, *copy;
    EXPECT(ciphermill_multi_part_open(mill, NULL, sha256, CIPHERMILL_ENCRYPT, no_key), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_open(mill, &parts, gcm, CIPHERMILL_ENCRYPT, no_key), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_open(mill, &parts, sha256, CIPHERMILL_DECRYPT, no_key), CIPHERMILL_REFUSED);
    EXPECT(ciphermill_multi_part_open(mill, &parts, sha256, CIPHERMILL_ENCRYPT, no_key), CIPHERMILL_OK);
    EXPECT(ciphermill_multi_part_absorb(parts, result, 32), CIPHERMILL_MISUSE); /* not begun */
    EXPECT(ciphermill_multi_part_begin(parts, result, 12), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_begin(parts, NULL, 0), CIPHERMILL_OK);
    EXPECT(ciphermill_multi_part_absorb(parts, NULL, 5), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_transform(parts, result, result, 32), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_transform(parts, result + 1, result, 31), CIPHERMILL_MISUSE); /* overlap */
    EXPECT(ciphermill_multi_part_copy(parts, NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_copy(parts, &copy), CIPHERMILL_OK);
    EXPECT(ciphermill_multi_part_finish(parts, result, 31), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_finish(copy, result, 32), CIPHERMILL_OK);
    EXPECT(ciphermill_multi_part_finish(copy, result, 32), CIPHERMILL_MISUSE); /* ended */
    EXPECT(ciphermill_multi_part_close(copy), CIPHERMILL_OK);
    EXPECT(ciphermill_multi_part_close(parts), CIPHERMILL_OK);
    EXPECT(ciphermill_multi_part_close(parts), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_multi_part_close(NULL), CIPHERMILL_OK);

    ciphermill_bound *bound;
    ciphermill_key key = { 7, 7 };
    EXPECT(ciphermill_bound_open(mill, &bound, gcm, CIPHERMILL_ENCRYPT, key), CIPHERMILL_REFUSED);
    EXPECT(ciphermill_key_import(mill, &key, CIPHERMILL_KEY_SECRET, NULL, 16, NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_key_import(mill, &key, CIPHERMILL_KEY_SECRET, NULL, 0, NULL), CIPHERMILL_REFUSED);
    EXPECT(ciphermill_key_import(mill, &key, 9, result, 16, NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_key_import(mill, &key, CIPHERMILL_KEY_SECRET, result, 16, NULL), CIPHERMILL_OK);
    EXPECT(ciphermill_bound_open(mill, &bound, gcm, CIPHERMILL_ENCRYPT, key), CIPHERMILL_OK);
    unsigned char iv[12] = { 0 }, data[16] = { 0 }, tag[16];
    ciphermill_message message = {
        .iv = iv, .iv_len = 11, .input = data, .input_len = 16, .output = data, .output_len = 16, .tag = tag, .tag_len = 16,
    };
    EXPECT(ciphermill_bound_run(bound, &message), CIPHERMILL_MISUSE);
    message.iv_len = 12;
    message.output = data + 1;
    message.output_len = 15;
    EXPECT(ciphermill_bound_run(bound, &message), CIPHERMILL_MISUSE);
    message.output = data;
    message.output_len = 16;
    message.tag = data + 8;
    message.tag_len = 8;
    EXPECT(ciphermill_bound_run(bound, &message), CIPHERMILL_MISUSE);
    message.tag = tag;
    message.tag_len = 16;
    EXPECT(ciphermill_bound_run(bound, &message), CIPHERMILL_OK);
    EXPECT(ciphermill_key_destroy(mill, key), CIPHERMILL_OK);
    EXPECT(ciphermill_key_destroy(mill, key), CIPHERMILL_REFUSED);
    EXPECT(ciphermill_bound_run(bound, &message), CIPHERMILL_REFUSED);
    EXPECT(ciphermill_bound_close(bound), CIPHERMILL_OK);

    size_t room = 0;
    EXPECT(ciphermill_suite_name(NULL, &room, gcm), CIPHERMILL_TOO_SHORT);
    if (room != sizeof "aes-128-gcm")
        exit(6);
    ciphermill_suite none;
    EXPECT(ciphermill_suite_by_name(&none, "aes-129-gcm"), CIPHERMILL_REFUSED);
    EXPECT(ciphermill_suite_by_name(&none, "\xff"), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_suite_by_name(&none, NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_last_error(NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_check_version(CIPHERMILL_ABI_VERSION + 1), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_check_version(CIPHERMILL_ABI_VERSION ^ 0x10000), CIPHERMILL_MISUSE);
}

static ciphermill_session *crowded;

static void *crowd(void *busy)
{
    for (int i = 0; i < 20000; i++) {
        size_t count;
        ciphermill_status status = ciphermill_session_in_flight(crowded, &count);
        if (status == CIPHERMILL_BUSY)
            ++*(long *)busy;
        else if (status != CIPHERMILL_OK)
            exit(7);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[4];
    long busy[4] = { 0 };
    EXPECT(ciphermill_session_open(mill, &crowded, 0), CIPHERMILL_OK);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, crowd, &busy[i]) != 0)
            exit(8);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    EXPECT(ciphermill_session_close(crowded), CIPHERMILL_OK);
}

static void child(ciphermill_session *session, ciphermill_digest *digest)
{
    ciphermill_batch batch = { .suite = sha256 };
    ciphermill_completed completed;
    size_t count;
    alarm(20);
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_FORKED);
    EXPECT(ciphermill_engine_count(mill, &count), CIPHERMILL_FORKED);
    EXPECT(ciphermill_session_wait(session, &completed), CIPHERMILL_FORKED);
    EXPECT(ciphermill_session_close(session), CIPHERMILL_FORKED);
    EXPECT(ciphermill_digest_update(digest, NULL, 0), CIPHERMILL_FORKED);
    EXPECT(ciphermill_mill_close(mill), CIPHERMILL_FORKED);
    /* A mill of its own works, and the parent's handles stay what they are. */
    ciphermill_mill *own;
    ciphermill_options options = { .struct_len = sizeof options, .engines = "library,reference", .workers = 1 };
    unsigned char result[32];
    EXPECT(ciphermill_mill_open(&own, &options), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_one(own, result, 32, sha256, NULL, 0), CIPHERMILL_OK);
    EXPECT(ciphermill_run(mill, NULL, &batch, NULL), CIPHERMILL_FORKED);
    EXPECT(ciphermill_mill_close(mill), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_mill_close(own), CIPHERMILL_OK);
    exit(0);
}

static void forks(void)
{
    ciphermill_session *session;
    ciphermill_digest *digest;
    EXPECT(ciphermill_session_open(mill, &session, 0), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_init(mill, &digest, sha256), CIPHERMILL_OK);
    pid_t pid = fork();
    if (pid == 0)
        child(session, digest);
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "the child ended with %#x\n", (unsigned)status);
        exit(9);
    }
    unsigned char result[32];
    EXPECT(ciphermill_digest_final(digest, result, 32), CIPHERMILL_OK);
    EXPECT(ciphermill_digest_close(digest), CIPHERMILL_OK);
    EXPECT(ciphermill_session_close(session), CIPHERMILL_OK);
}

int main(void)
{
    ciphermill_options options = { .struct_len = sizeof options, .engines = "abacus" };
    EXPECT(ciphermill_mill_open(NULL, NULL), CIPHERMILL_MISUSE);
    EXPECT(ciphermill_mill_open(&mill, &options), CIPHERMILL_REFUSED);
    options.engines = NULL;
    options.workers = -2;
    EXPECT(ciphermill_mill_open(&mill, &options), CIPHERMILL_MISUSE);
    options.workers = 2;
    options.legacy = 2;
    EXPECT(ciphermill_mill_open(&mill, &options), CIPHERMILL_MISUSE);
    options.legacy = 0;
    EXPECT(ciphermill_mill_open(&mill, &options), CIPHERMILL_OK);
    EXPECT(ciphermill_suite_by_name(&sha256, "sha256"), CIPHERMILL_OK);
    EXPECT(ciphermill_suite_by_name(&gcm, "aes-128-gcm"), CIPHERMILL_OK);
    batches();
    handles();
    threads();
    forks();
    EXPECT(ciphermill_mill_close(mill), CIPHERMILL_OK);
    EXPECT(ciphermill_mill_close(mill), CIPHERMILL_MISUSE);
    return 0;
}
