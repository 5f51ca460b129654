/*
 * Copies and settings of memory. Those without a stream go through the null stream, for which streams that were made
 * non-blocking do not wait, nor does it for them. They return when the API reference says so, not when it would be convenient
 * ("API synchronization behavior"): a copy from memory that is not pinned may return when the source has been read, and
 * setting device memory returns at once.
 */
#include "double.h"

using namespace fake;

/* Work that has been put together, or why there is none. */
struct Made {
    Work work{};
    int code = INVALID_VALUE;
};

static Made to_device(Pointer to, const void *from, size_t len, const Call &call)
{
    Made made;
    made.work.kind = Kind::TO_DEVICE;
    made.work.to = memory_at(to, len, call, "destination");
    if (made.work.to == nullptr) {
        return made;
    }
    made.work.to_bytes = bytes_at(made.work.to, to);
    made.work.from = pinned_at(from, len, call, "source");
    made.work.from_bytes = static_cast<const uint8_t *>(from);
    made.work.len = len;
    made.code = SUCCESS;
    return made;
}

static Made to_host(void *to, Pointer from, size_t len, const Call &call)
{
    Made made;
    made.work.kind = Kind::TO_HOST;
    made.work.from = memory_at(from, len, call, "source");
    if (made.work.from == nullptr) {
        return made;
    }
    made.work.from_bytes = bytes_at(made.work.from, from);
    made.work.to = pinned_at(to, len, call, "destination");
    made.work.to_bytes = static_cast<uint8_t *>(to);
    made.work.len = len;
    made.code = SUCCESS;
    return made;
}

static Made on_device(Pointer to, Pointer from, size_t len, const Call &call)
{
    Made made;
    made.work.kind = Kind::ON_DEVICE;
    made.work.to = memory_at(to, len, call, "destination");
    made.work.from = memory_at(from, len, call, "source");
    if (made.work.to == nullptr || made.work.from == nullptr) {
        return made;
    }
    made.work.to_bytes = bytes_at(made.work.to, to);
    made.work.from_bytes = bytes_at(made.work.from, from);
    made.work.len = len;
    made.code = SUCCESS;
    return made;
}

static Made setting(Pointer to, uint8_t value, size_t len, const Call &call)
{
    Made made;
    made.work.kind = Kind::SET;
    made.work.to = memory_at(to, len, call, "destination");
    if (made.work.to == nullptr) {
        return made;
    }
    made.work.to_bytes = bytes_at(made.work.to, to);
    made.work.value = value;
    made.work.len = len;
    made.code = SUCCESS;
    return made;
}

/* A wipe that was made to fail excuses the memory it was for, until something is waited for. */
static void excuse(Pointer to, const Call &call)
{
    auto next = state.by_pointer.upper_bound(to);
    if (call.told && next != state.by_pointer.begin()) {
        std::prev(next)->second->wipe_failed = true;
    }
}

/* Puts work into a stream, which the copies of memory that is not pinned must not be. */
static int in_stream(Made made, void *handle, const Call &call)
{
    if (made.code != SUCCESS) {
        return made.code;
    }
    bool copies = made.work.kind == Kind::TO_DEVICE || made.work.kind == Kind::TO_HOST;
    if (copies && (made.work.to == nullptr || made.work.from == nullptr)) {
        violation("%s: the host's memory is not pinned", call.function);
        return INVALID_VALUE;
    }
    Stream *stream = stream_of(handle, call);
    if (stream == nullptr) {
        return INVALID_HANDLE;
    }
    enqueue(stream, std::move(made.work));
    return call.end();
}

/* The same in the null stream, waiting for the end of it if the API does. */
static int at_once(Made made, bool waits, const Call &call)
{
    if (made.code != SUCCESS) {
        return made.code;
    }
    enqueue(call.context->null_stream, std::move(made.work));
    while (waits && !call.context->null_stream->work.empty() && step(call.context)) {
    }
    return call.end();
}

EXPORT int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t len, void *stream)
{
    Call call("cuMemcpyHtoDAsync_v2");
    return call.code != SUCCESS ? call.code : in_stream(to_device(to, from, len, call), stream, call);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t len, void *stream)
{
    Call call("cuMemcpyDtoHAsync_v2");
    return call.code != SUCCESS ? call.code : in_stream(to_host(to, from, len, call), stream, call);
}

EXPORT int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t len, void *stream)
{
    Call call("cuMemcpyDtoDAsync_v2");
    return call.code != SUCCESS ? call.code : in_stream(on_device(to, from, len, call), stream, call);
}

EXPORT int cuMemsetD8Async(Pointer to, unsigned char value, size_t len, void *stream)
{
    Call call("cuMemsetD8Async");
    excuse(to, call);
    return call.code != SUCCESS ? call.code : in_stream(setting(to, value, len, call), stream, call);
}

EXPORT int cuMemcpyHtoD_v2(Pointer to, const void *from, size_t len)
{
    Call call("cuMemcpyHtoD_v2");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Made made = to_device(to, from, len, call);
    bool pinned = made.work.from != nullptr;
    if (!pinned && made.code == SUCCESS) {
        violation("cuMemcpyHtoD_v2: the host's memory is not pinned: the driver keeps a copy of what is in it");
        made.work.kept.assign(made.work.from_bytes, made.work.from_bytes + len);
    }
    return at_once(std::move(made), pinned, call);
}

EXPORT int cuMemcpyDtoH_v2(void *to, Pointer from, size_t len)
{
    Call call("cuMemcpyDtoH_v2");
    return call.code != SUCCESS ? call.code : at_once(to_host(to, from, len, call), true, call);
}

EXPORT int cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t len)
{
    Call call("cuMemcpyDtoD_v2");
    return call.code != SUCCESS ? call.code : at_once(on_device(to, from, len, call), false, call);
}

EXPORT int cuMemsetD8_v2(Pointer to, unsigned char value, size_t len)
{
    Call call("cuMemsetD8_v2");
    excuse(to, call);
    return call.code != SUCCESS ? call.code : at_once(setting(to, value, len, call), false, call);
}
