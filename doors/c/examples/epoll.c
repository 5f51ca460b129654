/* Batches that are handed over and come back to an event loop: eight of them, with an eventfd in epoll.
 *
 *     cc -std=c11 epoll.c $(pkg-config --cflags --libs ciphermill)
 */
#include <ciphermill.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BATCHES = 8, OPS = 64, LEN = 1024, DIGEST_LEN = 32, STRIDE = LEN + DIGEST_LEN };

static void check(ciphermill_status status, const char *what)
{
    if (status == CIPHERMILL_OK)
        return;
    ciphermill_error error;
    ciphermill_last_error(&error);
    fprintf(stderr, "%s: %s: %s\n", what, ciphermill_status_text(status), error.text);
    exit(1);
}

int main(void)
{
    ciphermill_options options = { .struct_len = sizeof options, .workers = 2 };
    ciphermill_mill *mill;
    check(ciphermill_mill_open(&mill, &options), "open");
    ciphermill_suite sha256;
    check(ciphermill_suite_by_name(&sha256, "sha256"), "suite");
    ciphermill_session *session;
    check(ciphermill_session_open(mill, &session, 0), "session");

    int event_fd, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    check(ciphermill_session_event_fd(session, &event_fd), "event_fd");
    struct epoll_event event = { .events = EPOLLIN };
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event) != 0)
        return 1;

    /* Ops and arenas are the library's from submitting until a batch comes back. */
    ciphermill_op *ops = aligned_alloc(64, BATCHES * OPS * sizeof *ops);
    unsigned char *arenas = malloc((size_t)BATCHES * OPS * STRIDE);
    if (ops == NULL || arenas == NULL)
        return 1;
    memset(ops, 0, BATCHES * OPS * sizeof *ops);
    memset(arenas, 7, (size_t)BATCHES * OPS * STRIDE);
    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < OPS; i++) {
            ciphermill_op *op = &ops[b * OPS + i];
            op->input = (uint32_t)(i * STRIDE);
            op->input_len = LEN;
            op->tag = (uint32_t)(i * STRIDE + LEN);
            op->tag_len = DIGEST_LEN;
        }
        ciphermill_batch batch = {
            .suite = sha256, .direction = CIPHERMILL_ENCRYPT, .ops = ops + b * OPS, .ops_len = OPS,
            .arena = arenas + (size_t)b * OPS * STRIDE, .arena_len = OPS * STRIDE,
        };
        uint64_t ticket;
        check(ciphermill_session_submit(session, &ticket, &batch, (uint64_t)b, 0, NULL), "submit");
    }

    int back = 0, wrong = 0;
    while (back < BATCHES) {
        if (epoll_wait(epoll_fd, &event, 1, 10000) != 1) {
            fprintf(stderr, "no batch has come back\n");
            return 1;
        }
        ciphermill_completed completed[4];
        size_t completed_len;
        do {
            completed_len = 4;
            check(ciphermill_session_poll(session, completed, &completed_len), "poll");
            for (size_t i = 0; i < completed_len; i++) {
                wrong |= completed[i].status != CIPHERMILL_OK || completed[i].done != OPS;
                printf("batch %llu: %llu digests\n", (unsigned long long)completed[i].cookie,
                       (unsigned long long)completed[i].done);
            }
            back += (int)completed_len;
        } while (completed_len == 4);
    }

    check(ciphermill_session_close(session), "close");
    check(ciphermill_mill_close(mill), "close");
    for (int b = 0; b < BATCHES * OPS; b++)
        wrong |= memcmp(arenas + (size_t)b * STRIDE + LEN, arenas + LEN, DIGEST_LEN) != 0;
    close(epoll_fd);
    free(arenas);
    free(ops);
    return wrong;
}
