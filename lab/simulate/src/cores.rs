//! Cores and the threads that share them, as Linux shares them out: the earliest virtual deadline of those that are eligible (Stoica and
//! Abdel-Wahab 1995), as Linux 6.18 has it (`kernel/sched/fair.c`). All threads have the same weight.
//!
//! A thread's virtual time is what it has run. Of those that have had no more than the mean of all on their core, the one is next whose deadline
//! is first; a deadline is a slice away. Who goes to sleep with more than its share stays among them until it is eligible again. Who is woken
//! goes where it was, unless that core is busy and another is idle or has less to do; it has the core at once if it is next by that rule.

use crate::events::{Event, Events};
use crate::scenario::Scenario;

/// A core that nobody has had for so many nanoseconds has gone to sleep.
const IDLE_NS: u64 = 1_000;

/// Who looks for something and gives its core away meanwhile has it for so long at least, in nanoseconds: a look and a system call.
const YIELD_NS: u64 = 300;

/// A thread that has run within so many nanoseconds is left where it is when another core is idle (`sysctl_sched_migration_cost`).
const HOT_NS: u64 = 500_000;

/// In so many nanoseconds what is known of a load falls to its e-th part: to half within 32 periods of 1,024 µs (`kernel/sched/pelt.c`).
const LOAD_NS: f64 = 32.0 * 1_048_576.0 / core::f64::consts::LN_2;

/// The share by which loads of cores with a common cache may differ (`imbalance_pct` of their domain), and half of it.
const IMBALANCE: f64 = 1.17;
const IMBALANCE_HALF: f64 = 1.08;

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It sleeps.
    Asleep,
    /// It has gone to sleep and is still counted on its core, since it has had more than its share.
    Leaves,
    /// It waits for its core, or has it.
    Runnable,
}

/// What a thread does with its core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Turn {
    /// It works for so many nanoseconds.
    Work(u64),
    /// It looks for something until this time, and gives its core to others meanwhile if it `yields`.
    Look { until_ns: u64, yields: bool },
    /// It sleeps.
    Sleep,
}

#[derive(Debug)]
struct Thread {
    core: u32,
    /// The core where it was when it was last woken while that was busy.
    recent: u32,
    place: Place,
    slice_ns: f64,
    vruntime: f64,
    deadline: f64,
    /// What it was owed when it went to sleep.
    lag: f64,
    turn: Turn,
    ran_at_ns: u64,
    /// The share of the time in which it was runnable.
    load: Average,
}

#[derive(Debug)]
struct Core {
    running: Option<u32>,
    /// Until when what the thread has run is accounted for; from when on it runs, if that is later.
    since_ns: u64,
    /// Up to this virtual time the thread is not replaced by one that is merely next.
    protected: f64,
    /// The others that count here.
    queue: Vec<u32>,
    runnable: u32,
    resched: bool,
    /// For so long the kernel has the core before the next thread has it.
    interrupted_ns: u64,
    /// Where virtual time stood when nobody was left.
    zero: f64,
    idle_since_ns: Option<u64>,
    /// Number of the last event; those before it are of no account.
    era: u32,
    is_dirty: bool,
    load: Average,
    busy: Average,
}

/// An exponentially weighted mean over time.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    value: f64,
    at_ns: u64,
}

impl Average {
    /// The mean at `now_ns`, when it was `level` since it was asked for last.
    fn after(&mut self, now_ns: u64, level: f64) -> f64 {
        let past = (-(now_ns.saturating_sub(self.at_ns) as f64) / LOAD_NS).exp();
        self.value = self.value * past + level * (1.0 - past);
        self.at_ns = now_ns;
        self.value
    }
}

/// All cores, in nodes of as many each, and all threads.
#[derive(Debug)]
pub(crate) struct Cores {
    cores: Vec<Core>,
    threads: Vec<Thread>,
    of_node: u32,
    tick_ns: u64,
    wakeup_ns: u64,
    interrupt_ns: u64,
    window: (u64, u64),
    dirty: Vec<u32>,
    /// Threads in all queues.
    queued: u32,
    /// The number of the first thread that is a client's.
    clients_from: u32,
    /// Nanoseconds of work of the service's threads and of clients', of the time that is counted.
    pub(crate) busy_ns: [f64; 2],
}

impl Cores {
    /// Cores without threads.
    pub(crate) fn new(scenario: &Scenario) -> Cores {
        let core = |_| Core {
            running: None,
            since_ns: 0,
            protected: 0.0,
            queue: Vec::new(),
            runnable: 0,
            resched: false,
            interrupted_ns: 0,
            zero: 0.0,
            idle_since_ns: Some(0),
            era: 0,
            is_dirty: false,
            load: Average::default(),
            busy: Average::default(),
        };
        Cores {
            cores: (0..scenario.cores).map(core).collect(),
            threads: Vec::new(),
            of_node: scenario.cores_of_node(),
            tick_ns: scenario.tick_ns.max(1),
            wakeup_ns: scenario.overheads.wakeup_ns as u64,
            interrupt_ns: scenario.overheads.interrupt_ns as u64,
            window: scenario.window(),
            dirty: Vec::new(),
            queued: 0,
            clients_from: u32::MAX,
            busy_ns: [0.0; 2],
        }
    }

    /// Adds a thread that sleeps and has been on this core: its number.
    pub(crate) fn add(&mut self, core: u32, slice_ns: u64) -> u32 {
        self.threads.push(Thread {
            core,
            recent: core,
            place: Place::Asleep,
            slice_ns: slice_ns as f64,
            vruntime: 0.0,
            deadline: 0.0,
            lag: 0.0,
            turn: Turn::Sleep,
            ran_at_ns: 0,
            load: Average::default(),
        });
        self.threads.len() as u32 - 1
    }

    /// Threads that are added from now on are clients'.
    pub(crate) fn begin_clients(&mut self) {
        self.clients_from = self.threads.len() as u32;
    }

    /// Where a thread is, or was last.
    pub(crate) fn core_of(&self, thread: u32) -> u32 {
        self.threads[thread as usize].core
    }

    /// Wakes a thread, which does this as soon as it has a core; `by` is the core of who wakes it. Nanoseconds of that one for interrupting
    /// another core.
    pub(crate) fn wake(&mut self, thread: u32, turn: Turn, now_ns: u64, by: Option<u32>) -> u64 {
        match self.threads[thread as usize].place {
            Place::Runnable => {}
            Place::Leaves => {
                let core = self.threads[thread as usize].core;
                self.account(core, now_ns);
                let lag = self.mean(core) - self.threads[thread as usize].vruntime;
                self.threads[thread as usize].load.after(now_ns, 0.0);
                if lag > 0.0 {
                    self.leave_queue(core, thread);
                    self.threads[thread as usize].lag = 0.0;
                    self.put(thread, core);
                    // Who runs has had some time since the kernel reckoned the mean that it goes by here.
                    self.threads[thread as usize].vruntime -= 1.0;
                    self.join_queue(core, thread);
                }
                self.arrived(thread, now_ns);
            }
            Place::Asleep => {
                self.threads[thread as usize].load.after(now_ns, 0.0);
                let core = self.select(thread, now_ns, by);
                self.account(core, now_ns);
                self.threads[thread as usize].core = core;
                self.put(thread, core);
                self.join_queue(core, thread);
                self.arrived(thread, now_ns);
            }
        }
        self.threads[thread as usize].turn = turn;
        let core = self.threads[thread as usize].core;
        let own = &mut self.cores[core as usize];
        if by.is_none_or(|by| by == core) || !(own.resched || own.idle_since_ns.is_some()) {
            return 0;
        }
        // What interrupts a core has it for as long as it takes to interrupt it.
        if own.idle_since_ns.is_none() {
            own.interrupted_ns += 2 * self.interrupt_ns;
        }
        self.interrupt_ns
    }

    /// Has a thread that is runnable do something else from now on.
    pub(crate) fn turn_to(&mut self, thread: u32, turn: Turn, now_ns: u64) {
        let core = self.threads[thread as usize].core;
        self.account(core, now_ns);
        self.touch(core);
        if turn != Turn::Sleep {
            self.threads[thread as usize].turn = turn;
            return;
        }
        let lag = self.mean(core) - self.threads[thread as usize].vruntime;
        let own = &mut self.threads[thread as usize];
        let most = (2.0 * own.slice_ns).max(self.tick_ns as f64);
        (own.turn, own.lag) = (turn, lag.clamp(-most, most));
        own.load.after(now_ns, 1.0);
        let was = &mut self.cores[core as usize];
        (was.running, was.zero) = (None, own.vruntime);
        let runnable = was.runnable.into();
        was.load.after(now_ns, runnable);
        was.busy.after(now_ns, 1.0);
        was.runnable -= 1;
        if lag < 0.0 && !was.queue.is_empty() {
            own.place = Place::Leaves;
            self.join_queue(core, thread);
        } else {
            own.place = Place::Asleep;
        }
    }

    /// Something happens on a core: the thread that has done what it should, if it has.
    pub(crate) fn happens(&mut self, core: u32, era: u32, now_ns: u64) -> Option<u32> {
        let own = &self.cores[core as usize];
        let thread = own.running.filter(|_| own.era == era)?;
        self.account(core, now_ns);
        self.touch(core);
        match self.threads[thread as usize].turn {
            Turn::Work(0) => return Some(thread),
            Turn::Look { until_ns, .. } if until_ns <= now_ns => return Some(thread),
            Turn::Look { yields: true, .. } => self.yields(core, thread),
            _ => self.tick(core, now_ns),
        }
        None
    }

    /// Has every core whose threads have changed go on.
    pub(crate) fn settle(&mut self, events: &mut Events, now_ns: u64) {
        while let Some(core) = self.dirty.pop() {
            self.cores[core as usize].is_dirty = false;
            self.choose(core, now_ns);
            let own = &mut self.cores[core as usize];
            own.era = own.era.wrapping_add(1);
            let Some(thread) = own.running else { continue };
            let thread = &self.threads[thread as usize];
            let is_alone = own.queue.is_empty();
            let end_ns = match thread.turn {
                Turn::Work(ns) => own.since_ns + ns,
                Turn::Look { until_ns, yields: true } if !is_alone => until_ns.min(own.since_ns + YIELD_NS),
                Turn::Look { until_ns, .. } => until_ns.max(own.since_ns),
                Turn::Sleep => continue,
            };
            let left = thread.deadline.min(own.protected) - thread.vruntime;
            let slice_ns = own.since_ns + left.max(1.0) as u64;
            let tick_ns = slice_ns.next_multiple_of(self.tick_ns);
            let at_ns = if is_alone { end_ns } else { end_ns.min(tick_ns) };
            events.at(at_ns.max(now_ns), Event::Core(core, own.era));
        }
    }

    /// What is left of the running thread's turn, and of the time up to which it is let alone.
    fn account(&mut self, core: u32, now_ns: u64) {
        let own = &mut self.cores[core as usize];
        let Some(number) = own.running else { return };
        let ran = now_ns.saturating_sub(own.since_ns);
        if ran == 0 {
            return;
        }
        let from_ns = core::mem::replace(&mut own.since_ns, now_ns);
        let thread = &mut self.threads[number as usize];
        thread.vruntime += ran as f64;
        thread.ran_at_ns = now_ns;
        if let Turn::Work(left) = &mut thread.turn {
            *left = left.saturating_sub(ran);
            let (begin, end) = self.window;
            let counted = now_ns.min(end).saturating_sub(from_ns.max(begin)) as f64;
            self.busy_ns[usize::from(number >= self.clients_from)] += counted;
        }
    }

    /// The kernel looks at the running thread's slice, as it does at each tick and when a thread comes.
    fn check_slice(&mut self, core: u32) {
        let own = &mut self.cores[core as usize];
        let Some(number) = own.running else { return };
        let thread = &mut self.threads[number as usize];
        let is_over = thread.vruntime >= thread.deadline;
        if is_over {
            thread.deadline = thread.vruntime + thread.slice_ns;
        }
        own.resched |= !own.queue.is_empty() && (is_over || thread.vruntime >= own.protected);
    }

    fn tick(&mut self, core: u32, now_ns: u64) {
        self.check_slice(core);
        // A core that has nothing to do is told that something waits here.
        let idle = self.node_of(core).find(|other| self.cores[*other as usize].idle_since_ns.is_some());
        if let Some(idle) = idle {
            self.pull(idle, now_ns);
        }
    }

    /// The running thread gives its core away. If it is owed something, it forgoes the rest of its slice.
    fn yields(&mut self, core: u32, number: u32) {
        if self.cores[core as usize].queue.is_empty() {
            return;
        }
        let is_eligible = self.threads[number as usize].vruntime <= self.mean(core);
        let thread = &mut self.threads[number as usize];
        if is_eligible {
            thread.vruntime = thread.deadline;
            thread.deadline += thread.slice_ns;
        }
        self.cores[core as usize].resched = true;
    }

    /// A thread is runnable from now on, and counts on its core.
    fn arrived(&mut self, number: u32, now_ns: u64) {
        let core = self.threads[number as usize].core;
        self.threads[number as usize].place = Place::Runnable;
        let own = &mut self.cores[core as usize];
        let runnable = own.runnable.into();
        own.load.after(now_ns, runnable);
        own.runnable += 1;
        self.touch(core);
        let Some(running) = self.cores[core as usize].running else { return };
        self.check_slice(core);
        if self.preempts(core, running, number) {
            self.cores[core as usize].resched = true;
        }
    }

    /// Whether a thread that has come is next, before the one that runs.
    fn preempts(&self, core: u32, running: u32, number: u32) -> bool {
        let (mean, own) = (self.mean(core), &self.cores[core as usize]);
        let (before, thread) = (&self.threads[running as usize], &self.threads[number as usize]);
        let is_eligible = before.vruntime <= mean;
        let is_short = thread.slice_ns < before.slice_ns && thread.vruntime <= mean;
        if is_eligible && before.vruntime < own.protected && !is_short {
            return false;
        }
        self.next(core, mean) == Some(number) && (!is_eligible || thread.deadline < before.deadline)
    }

    /// The eligible thread with the first deadline of those that have not the core.
    fn next(&self, core: u32, mean: f64) -> Option<u32> {
        let deadline = |number: &u32| self.threads[*number as usize].deadline;
        let queue = self.cores[core as usize].queue.iter().copied();
        // What was summed up in another order may differ in its last digit.
        let eligible = queue.filter(|number| self.threads[*number as usize].vruntime <= mean + 1e-2);
        eligible.min_by(|a, b| deadline(a).total_cmp(&deadline(b)))
    }

    /// The mean virtual time of all that count on a core.
    fn mean(&self, core: u32) -> f64 {
        let own = &self.cores[core as usize];
        let all = own.queue.iter().chain(own.running.as_ref());
        let (sum, count) = all.fold((0.0, 0.0), |(sum, count), number| {
            (sum + (self.threads[*number as usize].vruntime - own.zero), count + 1.0)
        });
        if count > 0.0 { own.zero + sum / count } else { own.zero }
    }

    /// Gives a thread that comes to a core its virtual time there, such that it is owed what it was when it went.
    fn put(&mut self, number: u32, core: u32) {
        let mean = self.mean(core);
        let own = &self.cores[core as usize];
        let count = own.queue.len() + usize::from(own.running.is_some());
        let thread = &mut self.threads[number as usize];
        let lag = if count > 0 { thread.lag * (count + 1) as f64 / count as f64 } else { 0.0 };
        thread.vruntime = mean - lag;
        thread.deadline = thread.vruntime + thread.slice_ns;
    }

    /// The core that a thread wakes up on (`select_task_rq_fair`).
    fn select(&mut self, number: u32, now_ns: u64, by: Option<u32>) -> u32 {
        let before = self.threads[number as usize].core;
        let is_idle = |cores: &Cores, core: u32| cores.cores[core as usize].idle_since_ns.is_some();
        if is_idle(self, before) {
            return before;
        }
        let mut target = before;
        let nodes = self.node_of(before);
        if let Some(by) = by.filter(|by| *by != before && nodes.contains(by)) {
            let load = self.threads[number as usize].load.value;
            let here = self.load(by, now_ns) + load;
            if here < IMBALANCE_HALF * (self.load(before, now_ns) - load) {
                target = by;
            }
        }
        let recent = core::mem::replace(&mut self.threads[number as usize].recent, before);
        if recent != before && recent != target && is_idle(self, recent) {
            self.move_load(number, before, recent);
            return recent;
        }
        // The busier cores are, the fewer of them are looked at (`SIS_UTIL`).
        let count = f64::from(self.of_node);
        let busy = self.node_of(before).map(|core| self.busy(core, now_ns)).sum::<f64>() / count;
        let looked_at = (count * (1.0 - (IMBALANCE * busy).powi(2))).floor();
        let idle = self.node_of(before).find(|core| is_idle(self, *core)).filter(|_| looked_at >= 1.0);
        let chosen = idle.unwrap_or(target);
        if chosen != before {
            self.move_load(number, before, chosen);
        }
        chosen
    }

    fn load(&mut self, core: u32, now_ns: u64) -> f64 {
        let own = &mut self.cores[core as usize];
        own.load.after(now_ns, own.runnable.into())
    }

    fn busy(&mut self, core: u32, now_ns: u64) -> f64 {
        let own = &mut self.cores[core as usize];
        own.busy.after(now_ns, if own.running.is_some() { 1.0 } else { 0.0 })
    }

    fn move_load(&mut self, number: u32, from: u32, to: u32) {
        let load = self.threads[number as usize].load.value;
        let from = &mut self.cores[from as usize].load.value;
        *from = (*from - load).max(0.0);
        self.cores[to as usize].load.value += load;
    }

    /// Has a core decide who has it.
    fn choose(&mut self, core: u32, now_ns: u64) {
        let own = &mut self.cores[core as usize];
        if core::mem::take(&mut own.resched)
            && let Some(running) = own.running.take()
        {
            own.busy.after(now_ns, 1.0);
            self.join_queue(core, running);
            // Until the kernel chooses, who had the core has it: of two that are owed the same it is the one that has had more.
            self.threads[running as usize].vruntime += 1.0;
        }
        if self.cores[core as usize].running.is_some() {
            return;
        }
        if self.pick(core).is_none() && self.cores[core as usize].idle_since_ns.is_none() {
            self.cores[core as usize].idle_since_ns = Some(now_ns);
            self.pull(core, now_ns);
        }
        let Some(number) = self.pick(core) else { return };
        self.leave_queue(core, number);
        let (own, thread) = (&mut self.cores[core as usize], &self.threads[number as usize]);
        let slices = own.queue.iter().map(|other| self.threads[*other as usize].slice_ns);
        let shortest = slices.fold(thread.slice_ns, f64::min);
        own.protected = thread.deadline.min(thread.vruntime + shortest);
        let wakeup_ns = match own.idle_since_ns.take() {
            Some(since_ns) => {
                own.busy.after(now_ns, 0.0);
                if now_ns > since_ns + IDLE_NS { self.wakeup_ns } else { 0 }
            }
            None => core::mem::take(&mut own.interrupted_ns),
        };
        (own.running, own.since_ns) = (Some(number), now_ns + wakeup_ns);
    }

    /// Who is next; those that wanted to sleep and are eligible by now sleep.
    fn pick(&mut self, core: u32) -> Option<u32> {
        loop {
            let number = self.next(core, self.mean(core))?;
            if self.threads[number as usize].place != Place::Leaves {
                return Some(number);
            }
            self.cores[core as usize].zero = self.threads[number as usize].vruntime;
            self.leave_queue(core, number);
            let thread = &mut self.threads[number as usize];
            (thread.place, thread.lag) = (Place::Asleep, 0.0);
        }
    }

    /// A core that has nothing to do takes a thread that waits for another core and has not run of late.
    fn pull(&mut self, core: u32, now_ns: u64) {
        if self.queued == 0 {
            return;
        }
        let waits = |number: &u32| {
            let thread = &self.threads[*number as usize];
            thread.place == Place::Runnable && now_ns.saturating_sub(thread.ran_at_ns) >= HOT_NS
        };
        let found = self.node_of(core).filter(|other| *other != core).find_map(|other| {
            let queue = &self.cores[other as usize].queue;
            queue.iter().copied().find(waits).map(|number| (other, number))
        });
        let Some((from, number)) = found else { return };
        self.account(from, now_ns);
        self.threads[number as usize].lag = self.mean(from) - self.threads[number as usize].vruntime;
        self.leave_queue(from, number);
        for (core, more) in [(from, false), (core, true)] {
            let own = &mut self.cores[core as usize];
            own.load.after(now_ns, own.runnable.into());
            own.runnable = if more { own.runnable + 1 } else { own.runnable - 1 };
        }
        self.move_load(number, from, core);
        self.threads[number as usize].core = core;
        self.put(number, core);
        self.join_queue(core, number);
        self.touch(core);
    }

    fn join_queue(&mut self, core: u32, number: u32) {
        self.cores[core as usize].queue.push(number);
        self.queued += 1;
    }

    fn leave_queue(&mut self, core: u32, number: u32) {
        let queue = &mut self.cores[core as usize].queue;
        if let Some(at) = queue.iter().position(|other| *other == number) {
            queue.remove(at);
            self.queued -= 1;
        }
    }

    fn node_of(&self, core: u32) -> core::ops::Range<u32> {
        let from = core / self.of_node * self.of_node;
        from..from + self.of_node
    }

    fn touch(&mut self, core: u32) {
        if !core::mem::replace(&mut self.cores[core as usize].is_dirty, true) {
            self.dirty.push(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{rsa, scenario};

    const SLICE_NS: u64 = 1_400_000;
    const SHORT_NS: u64 = 100_000;

    /// Cores without anything else, and what their threads have done and when.
    struct Bench {
        cores: Cores,
        events: Events,
        now_ns: u64,
        done: Vec<(u32, u64)>,
    }

    impl Bench {
        fn new(cores: u32) -> Bench {
            let mut scenario = Scenario { cores, ..scenario(vec![rsa()]) };
            (scenario.overheads.wakeup_ns, scenario.overheads.interrupt_ns) = (20_000.0, 5_000.0);
            Bench { cores: Cores::new(&scenario), events: Events::default(), now_ns: 0, done: Vec::new() }
        }

        fn wake(&mut self, thread: u32, ns: u64, by: Option<u32>) -> u64 {
            let interrupt_ns = self.cores.wake(thread, Turn::Work(ns), self.now_ns, by);
            self.cores.settle(&mut self.events, self.now_ns);
            interrupt_ns
        }

        /// Until this time; who has done its work sleeps.
        fn until(&mut self, end_ns: u64) {
            while let Some((at_ns, event)) = self.events.next() {
                if at_ns > end_ns {
                    self.events.at(at_ns, event);
                    break;
                }
                self.now_ns = at_ns;
                let Event::Core(core, era) = event else { continue };
                if let Some(thread) = self.cores.happens(core, era, at_ns) {
                    self.done.push((thread, at_ns));
                    self.cores.turn_to(thread, Turn::Sleep, at_ns);
                }
                self.cores.settle(&mut self.events, at_ns);
            }
            self.now_ns = end_ns;
        }

        fn done_at(&self, thread: u32) -> u64 {
            self.done.iter().find(|(done, _)| *done == thread).expect("done").1
        }
    }

    #[test]
    fn threads_that_work_take_turns_at_ticks() {
        let mut bench = Bench::new(1);
        let threads: Vec<u32> = (0..2).map(|_| bench.cores.add(0, SLICE_NS)).collect();
        threads.iter().for_each(|thread| _ = bench.wake(*thread, 40_000_000, None));
        bench.until(100_000_000);
        // Both have half of the core, so that they end within a tick of 4 ms of each other.
        assert!(bench.done_at(0).abs_diff(bench.done_at(1)) <= 4_100_000, "{:?}", bench.done);
        assert!(bench.done.iter().all(|(_, at)| *at > 75_000_000));
    }

    #[test]
    fn who_has_had_less_has_the_core_at_once_when_it_is_woken() {
        let mut bench = Bench::new(1);
        let [long, short] = [bench.cores.add(0, SLICE_NS), bench.cores.add(0, SHORT_NS)];
        bench.wake(long, 50_000_000, None);
        bench.until(1_000_000);
        assert_eq!(bench.wake(short, 10_000, Some(0)), 0, "no other core is interrupted");
        bench.until(1_500_000);
        assert_eq!(bench.done_at(short), 1_010_000);
    }

    #[test]
    fn a_core_that_sleeps_is_used_first_and_takes_its_time() {
        let mut bench = Bench::new(2);
        let [busy, woken] = [bench.cores.add(0, SLICE_NS), bench.cores.add(0, SLICE_NS)];
        bench.wake(busy, 50_000_000, None);
        bench.until(1_000_000);
        assert_eq!(bench.wake(woken, 10_000, Some(0)), 5_000, "the other core is interrupted");
        bench.until(2_000_000);
        assert_eq!((bench.done_at(woken), bench.cores.core_of(woken)), (1_030_000, 1));
    }

    /// Who looks and gives its core away forgoes a slice each time.
    #[test]
    fn who_yields_leaves_the_core_to_who_works() {
        let mut bench = Bench::new(1);
        let [looks, works] = [bench.cores.add(0, SLICE_NS), bench.cores.add(0, SLICE_NS)];
        let turn = Turn::Look { until_ns: 50_000_000, yields: true };
        bench.cores.wake(looks, turn, 0, None);
        bench.wake(works, 20_000_000, None);
        bench.until(60_000_000);
        assert!(bench.done_at(works) < 20_100_000, "{:?}", bench.done);
        assert!(bench.done_at(looks) >= 50_000_000, "{:?}", bench.done);
    }

    #[test]
    fn a_core_without_work_takes_what_waits_elsewhere() {
        let mut bench = Bench::new(2);
        let threads: Vec<u32> = (0..3).map(|_| bench.cores.add(0, SLICE_NS)).collect();
        threads.iter().for_each(|thread| _ = bench.wake(*thread, 10_000_000, Some(0)));
        bench.until(40_000_000);
        let last = bench.done.iter().map(|(_, at)| *at).max();
        assert!(last.is_some_and(|at| at < 20_000_000), "30 ms of work on two cores: {:?}", bench.done);
    }
}
