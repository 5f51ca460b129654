/*
 * Contexts, streams and events: work is put in line, and done when somebody waits for it, in an order that only streams
 * and events bind.
 */
#include "double.h"

#include <algorithm>
#include <cstring>

namespace fake {

static const char *name_of(Kind kind)
{
    switch (kind) {
    case Kind::TO_DEVICE:
        return "copy to the device";
    case Kind::TO_HOST:
        return "copy to the host";
    case Kind::ON_DEVICE:
        return "copy on the device";
    case Kind::SET:
        return "setting of memory";
    case Kind::LAUNCH:
        return "launch";
    case Kind::RECORD:
        return "record of an event";
    default:
        return "wait for an event";
    }
}

static void let_go(Memory *memory, uint64_t number)
{
    if (memory == nullptr || memory->where != Where::HOST) {
        return;
    }
    auto &busy = memory->busy;
    busy.erase(std::remove_if(busy.begin(), busy.end(), [&](const Busy &one) { return one.work == number; }),
               busy.end());
    protect(memory);
}

/* The host must keep its hands off pinned memory until the work is done. */
static void hold(Memory *memory, const uint8_t *bytes, const Work &work, bool written)
{
    if (memory == nullptr || memory->where != Where::HOST) {
        return;
    }
    size_t from = static_cast<size_t>(bytes - memory->bytes);
    memory->busy.push_back({work.number, from, from + work.len, written});
    protect(memory);
}

/* Whether work at the front of a stream may be done now. */
static bool is_ready(const Context *context, const Stream *stream)
{
    if (stream->work.empty()) {
        return false;
    }
    const Work &front = stream->work.front();
    if (front.kind == Kind::WAIT && !front.record->done) {
        return false;
    }
    auto before = [&](const Stream *other) { return !other->work.empty() && other->work.front().number < front.number; };
    /* The null stream waits for the streams that wait for it, and the other way round. */
    if (stream == context->null_stream) {
        return std::none_of(context->streams.begin(), context->streams.end(),
                            [&](const Stream *other) { return other->waits_for_null && before(other); });
    }
    return !stream->waits_for_null || !before(context->null_stream);
}

static void check_alive(const Work &work)
{
    std::vector<Memory *> all = work.used;
    all.push_back(work.to);
    all.push_back(work.from);
    for (const Memory *memory : all) {
        if (memory != nullptr && !memory->alive) {
            violation("a %s is done on memory that was freed", name_of(work.kind));
        }
    }
}

static void perform(const Work &work)
{
    const uint8_t *from = work.kept.empty() ? work.from_bytes : work.kept.data();
    for (Memory *memory : {work.to, work.from}) {
        if (memory != nullptr && memory->where == Where::HOST) {
            open_up(memory);
        }
    }
    switch (work.kind) {
    case Kind::TO_DEVICE:
    case Kind::TO_HOST:
    case Kind::ON_DEVICE:
        memmove(work.to_bytes, from, work.len);
        break;
    case Kind::SET:
        set(work.to, work.to_bytes, work.value, work.len);
        break;
    case Kind::LAUNCH:
        state.launches++;
        run_kernel(work);
        break;
    case Kind::RECORD:
        work.record->done = true;
        break;
    case Kind::WAIT:
        break;
    }
}

/* Does the work at the front of a stream. */
static void do_front(Context *context, Stream *stream)
{
    Work work = std::move(stream->work.front());
    stream->work.pop_front();
    bool counts = work.kind != Kind::RECORD && work.kind != Kind::WAIT;
    if (counts && state.work_fails_in > 0 && --state.work_fails_in == 0) {
        state.failed = name_of(work.kind);
        let_go(work.to, work.number);
        let_go(work.from, work.number);
        return lose(context, state.work_fails_code);
    }
    check_alive(work);
    perform(work);
    let_go(work.to, work.number);
    let_go(work.from, work.number);
}

static std::vector<Stream *> ready_streams(Context *context)
{
    std::vector<Stream *> ready;
    for (Stream *stream : context->streams) {
        if (is_ready(context, stream)) {
            ready.push_back(stream);
        }
    }
    return ready;
}

/* Does one piece of work of any stream; false when there is none that may be done. */
bool step(Context *context)
{
    std::vector<Stream *> ready = ready_streams(context);
    if (ready.empty()) {
        return false;
    }
    do_front(context, ready[chance(ready.size())]);
    return true;
}

bool is_pending(const Context *context)
{
    return std::any_of(context->streams.begin(), context->streams.end(),
                       [](const Stream *stream) { return !stream->work.empty(); });
}

void run_all(Context *context)
{
    while (step(context)) {
    }
    if (is_pending(context)) {
        violation("streams wait for each other in a ring");
        drop_work(context);
    }
}

/* What a device gets done between two calls. */
void run_some(Context *context)
{
    if (state.pace == Pace::EARLY) {
        return run_all(context);
    }
    while (chance(4) == 0 && step(context)) {
    }
}

/* Waits for a stream's work, doing as little else as it takes when the pace is late. */
static void run_until_empty(Context *context, Stream *stream)
{
    while (!stream->work.empty()) {
        bool own = is_ready(context, stream) && (state.pace == Pace::LATE || chance(2) == 0);
        if (own) {
            do_front(context, stream);
        } else if (!step(context)) {
            violation("a stream waits for itself");
            return drop_work(context);
        }
    }
}

static void run_until(Context *context, const std::shared_ptr<Record> &record)
{
    while (!record->done && step(context)) {
    }
    if (!record->done && context->lost == SUCCESS) {
        violation("an event was waited for that cannot come");
    }
}

void drop_work(Context *context)
{
    for (Stream *stream : context->streams) {
        while (!stream->work.empty()) {
            Work work = std::move(stream->work.front());
            stream->work.pop_front();
            let_go(work.to, work.number);
            let_go(work.from, work.number);
        }
    }
}

bool uses(const Context *context, const Memory *memory)
{
    auto by = [&](const Work &work) {
        return work.to == memory || work.from == memory ||
               std::find(work.used.begin(), work.used.end(), memory) != work.used.end();
    };
    return std::any_of(context->streams.begin(), context->streams.end(), [&](const Stream *stream) {
        return std::any_of(stream->work.begin(), stream->work.end(), by);
    });
}

bool uses(const Context *context, const Module *module)
{
    auto by = [&](const Work &work) { return work.function != nullptr && work.function->module == module; };
    return std::any_of(context->streams.begin(), context->streams.end(), [&](const Stream *stream) {
        return std::any_of(stream->work.begin(), stream->work.end(), by);
    });
}

void enqueue(Stream *stream, Work work)
{
    work.number = ++state.works;
    if (work.kind == Kind::TO_DEVICE) {
        hold(work.from, work.from_bytes, work, false);
    }
    if (work.kind == Kind::TO_HOST) {
        hold(work.to, work.to_bytes, work, true);
    }
    stream->work.push_back(std::move(work));
    if (state.pace != Pace::LATE) {
        run_some(stream->context);
    }
}

Stream *stream_of(void *handle, const Call &call)
{
    if (handle == nullptr) {
        return call.context->null_stream;
    }
    auto stream = static_cast<Stream *>(handle);
    if (state.streams.count(stream) == 0) {
        violation("%s: this is no stream", call.function);
    } else if (!stream->alive) {
        violation("%s: the stream was destroyed", call.function);
    } else if (stream->context != call.context) {
        violation("%s: the stream is another context's", call.function);
    } else {
        return stream;
    }
    return nullptr;
}

static Event *event_of(void *handle, const Call &call)
{
    auto event = static_cast<Event *>(handle);
    if (state.events.count(event) == 0) {
        violation("%s: this is no event", call.function);
    } else if (!event->alive) {
        violation("%s: the event was destroyed", call.function);
    } else if (event->context != call.context) {
        violation("%s: the event is another context's", call.function);
    } else {
        return event;
    }
    return nullptr;
}

/* An event that somebody waits for or asks about: it must have been recorded. */
static Event *recorded(void *handle, const Call &call)
{
    Event *event = event_of(handle, call);
    if (event != nullptr && event->last == nullptr) {
        violation("%s: the event was never recorded", call.function);
        return nullptr;
    }
    return event;
}

static Stream *new_stream(Context *context, bool waits_for_null)
{
    auto *stream = new Stream{};
    stream->context = context;
    stream->waits_for_null = waits_for_null;
    context->streams.push_back(stream);
    state.streams.insert(stream);
    return stream;
}

/* Memory that failed to be wiped had a second chance if there was time to wait for something. */
static void had_a_chance(const Context *context)
{
    for (auto &[at, memory] : state.by_pointer) {
        if (memory->context == context) {
            memory->wipe_failed = false;
        }
    }
}

/* Whether a call was made to fail without which nobody can be sure that something has ended. */
static bool in_doubt()
{
    return state.failed == "cuCtxSetCurrent" || state.failed.find("Synchronize") != std::string::npos;
}

/* What is still there when a context goes. Nothing could be ended in one that was lost. */
static void check_leftovers(const Context *context)
{
    if (is_pending(context)) {
        violation("cuCtxDestroy_v2: work is pending");
    }
    for (const Stream *stream : context->streams) {
        if (stream->alive && stream != context->null_stream && !stream->destroy_failed) {
            violation("cuCtxDestroy_v2: a stream is left");
        }
    }
    for (const Event *event : state.events) {
        if (event->context == context && event->alive && !event->destroy_failed) {
            violation("cuCtxDestroy_v2: an event is left");
        }
    }
    for (const Module *module : state.modules) {
        if (module->context == context && module->alive && !module->unload_failed) {
            violation("cuCtxDestroy_v2: a module is left");
        }
    }
    for (const auto &[at, memory] : state.by_pointer) {
        if (memory->context == context && memory->alive && !memory->free_failed) {
            violation("cuCtxDestroy_v2: %zu bytes of %s memory are left", memory->len,
                      memory->where == Where::HOST ? "pinned" : "device");
        }
    }
}

static void end_context(Context *context)
{
    bool lost = context->lost != SUCCESS;
    if (!lost && !in_doubt()) {
        check_leftovers(context);
    }
    drop_work(context);
    for (auto &[at, memory] : state.by_pointer) {
        if (memory->context == context && memory->alive) {
            /* What lies on a device that is lost is out of reach; what lies here is not. */
            bool may_be_full = memory->where == Where::DEVICE && (lost || memory->wipe_failed);
            end_memory(memory, "cuCtxDestroy_v2", may_be_full);
        }
    }
    for (Stream *stream : context->streams) {
        stream->alive = false;
    }
    for (Event *event : state.events) {
        event->alive = event->alive && event->context != context;
    }
    for (Module *module : state.modules) {
        if (module->context == context && module->alive) {
            end_module(module);
        }
    }
    context->alive = false;
}

} /* namespace fake */

using namespace fake;

EXPORT int cuCtxCreate_v2(Context **out, unsigned, int)
{
    Call call("cuCtxCreate_v2", false);
    if (call.code != SUCCESS) {
        return call.code;
    }
    auto *context = new Context{};
    state.contexts.insert(context);
    context->null_stream = new_stream(context, false);
    current = *out = context;
    return SUCCESS;
}

/* Works on a context that is lost, as the driver's does: it is the only way to get rid of it. */
EXPORT int cuCtxDestroy_v2(Context *context)
{
    Call call("cuCtxDestroy_v2", false);
    if (state.contexts.count(context) == 0 || !context->alive) {
        violation("cuCtxDestroy_v2: this is no context, or it is gone");
        return INVALID_CONTEXT;
    }
    if (call.told && context->lost == SUCCESS) {
        context->destroy_failed = true;
        return call.code;
    }
    end_context(context);
    current = current == context ? nullptr : current;
    return call.code;
}

EXPORT int cuCtxSetCurrent(Context *context)
{
    Call call("cuCtxSetCurrent", false);
    if (call.code != SUCCESS) {
        return call.code;
    }
    if (context != nullptr && (state.contexts.count(context) == 0 || !context->alive)) {
        violation("cuCtxSetCurrent: this is no context, or it is gone");
        return INVALID_CONTEXT;
    }
    if (context != nullptr && context->lost != SUCCESS) {
        return context->lost;
    }
    current = context;
    return SUCCESS;
}

EXPORT int cuCtxGetCurrent(Context **out)
{
    Call call("cuCtxGetCurrent", false);
    *out = current;
    return call.code;
}

EXPORT int cuCtxPushCurrent_v2(Context *)
{
    violation("cuCtxPushCurrent_v2: the double has no stack of contexts");
    return INVALID_VALUE;
}

EXPORT int cuCtxSynchronize()
{
    Call call("cuCtxSynchronize");
    if (call.code != SUCCESS) {
        return call.code;
    }
    run_all(call.context);
    had_a_chance(call.context);
    return call.end();
}

EXPORT int cuStreamCreate(Stream **out, unsigned flags)
{
    Call call("cuStreamCreate");
    if (call.code == SUCCESS) {
        *out = new_stream(call.context, (flags & 1) == 0);
    }
    return call.code;
}

EXPORT int cuStreamCreateWithPriority(Stream **out, unsigned flags, int)
{
    Call call("cuStreamCreateWithPriority");
    if (call.code == SUCCESS) {
        *out = new_stream(call.context, (flags & 1) == 0);
    }
    return call.code;
}

EXPORT int cuStreamDestroy_v2(void *handle)
{
    Call call("cuStreamDestroy_v2");
    if (call.code != SUCCESS) {
        if (call.told && state.streams.count(static_cast<Stream *>(handle)) != 0) {
            static_cast<Stream *>(handle)->destroy_failed = true;
        }
        return call.code;
    }
    Stream *stream = stream_of(handle, call);
    if (stream == nullptr || handle == nullptr) {
        return INVALID_HANDLE;
    }
    if (!stream->work.empty() && !in_doubt()) {
        violation("cuStreamDestroy_v2: a %s is pending", name_of(stream->work.front().kind));
    }
    stream->alive = false;
    return SUCCESS;
}

EXPORT int cuStreamSynchronize(void *handle)
{
    Call call("cuStreamSynchronize");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Stream *stream = stream_of(handle, call);
    if (stream == nullptr) {
        return INVALID_HANDLE;
    }
    run_until_empty(call.context, stream);
    had_a_chance(call.context);
    return call.end();
}

EXPORT int cuStreamQuery(void *handle)
{
    Call call("cuStreamQuery");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Stream *stream = stream_of(handle, call);
    if (stream == nullptr) {
        return INVALID_HANDLE;
    }
    /* Asking often enough is answered in the end. */
    if (chance(2) == 0) {
        step(call.context);
    }
    return call.end(stream->work.empty() ? SUCCESS : NOT_READY);
}

EXPORT int cuStreamWaitEvent(void *handle, void *event_handle, unsigned)
{
    Call call("cuStreamWaitEvent");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Stream *stream = stream_of(handle, call);
    Event *event = event_of(event_handle, call);
    if (stream == nullptr || event == nullptr) {
        return INVALID_HANDLE;
    }
    if (event->last == nullptr) {
        /* By the manual this is no wait at all. */
        return call.end();
    }
    Work work{};
    work.kind = Kind::WAIT;
    work.record = event->last;
    enqueue(stream, std::move(work));
    return call.end();
}

EXPORT int cuEventCreate(Event **out, unsigned)
{
    Call call("cuEventCreate");
    if (call.code != SUCCESS) {
        return call.code;
    }
    *out = new Event{};
    (*out)->context = call.context;
    state.events.insert(*out);
    return SUCCESS;
}

EXPORT int cuEventDestroy_v2(void *handle)
{
    Call call("cuEventDestroy_v2");
    if (call.code != SUCCESS) {
        if (call.told && state.events.count(static_cast<Event *>(handle)) != 0) {
            static_cast<Event *>(handle)->destroy_failed = true;
        }
        return call.code;
    }
    Event *event = event_of(handle, call);
    if (event == nullptr) {
        return INVALID_HANDLE;
    }
    event->alive = false;
    return SUCCESS;
}

EXPORT int cuEventRecord(void *event_handle, void *handle)
{
    Call call("cuEventRecord");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Stream *stream = stream_of(handle, call);
    Event *event = event_of(event_handle, call);
    if (stream == nullptr || event == nullptr) {
        return INVALID_HANDLE;
    }
    Work work{};
    work.kind = Kind::RECORD;
    work.record = event->last = std::make_shared<Record>();
    enqueue(stream, std::move(work));
    return call.end();
}

EXPORT int cuEventQuery(void *handle)
{
    Call call("cuEventQuery");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Event *event = recorded(handle, call);
    if (event == nullptr) {
        return INVALID_HANDLE;
    }
    if (!event->last->done && chance(2) == 0) {
        step(call.context);
    }
    return call.end(event->last->done ? SUCCESS : NOT_READY);
}

EXPORT int cuEventSynchronize(void *handle)
{
    Call call("cuEventSynchronize");
    if (call.code != SUCCESS) {
        return call.code;
    }
    Event *event = recorded(handle, call);
    if (event == nullptr) {
        return INVALID_HANDLE;
    }
    run_until(call.context, event->last);
    had_a_chance(call.context);
    return call.end();
}
