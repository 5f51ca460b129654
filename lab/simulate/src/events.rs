//! What happens next, and requests on their way: a binary heap and a slab, so that no event allocates once both have grown.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// No request: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client of those that wait for answers makes a request.
    Ask(u32),
    /// A request of an open group comes.
    Arrival(u32),
    /// A request of a client that is elsewhere has reached the service.
    Submitted(u32),
    /// Such a client has its answer.
    Received(u32),
    /// A core's thread has done what it should, or has had its turn; of no account unless it is the last of that core's.
    Core(u32, u32),
    /// A worker's device has done its batch.
    Device(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at_ns: u64,
    number: u64,
    event: Event,
}

/// The greatest is the one that is next; of those at one time, the one that was put in first.
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Entry>,
    number: u64,
}

impl Events {
    /// Has an event happen at a time.
    #[inline]
    pub(crate) fn at(&mut self, at_ns: u64, event: Event) {
        self.number += 1;
        self.heap.push(Entry { at_ns, number: self.number, event });
    }

    /// The next event, and when.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|entry| (entry.at_ns, entry.event))
    }

    /// Events that there have been.
    pub(crate) fn count(&self) -> u64 {
        self.number
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) client: u32,
    pub(crate) work: u32,
    /// When the client began to make it.
    pub(crate) born_ns: u64,
    /// The client's request behind it, while both wait for a place in the queue.
    pub(crate) behind: u32,
}

/// Requests on their way, by number.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Vec<Request>,
    free: Vec<u32>,
}

impl Requests {
    pub(crate) fn add(&mut self, request: Request) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = request;
            return number;
        }
        self.all.push(request);
        (self.all.len() - 1) as u32
    }

    /// A request that has been answered; its number is given away again.
    pub(crate) fn remove(&mut self, number: u32) -> Request {
        self.free.push(number);
        self.all[number as usize]
    }

    pub(crate) fn get(&self, number: u32) -> &Request {
        &self.all[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Request {
        &mut self.all[number as usize]
    }

    /// Requests on their way.
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_times_and_then_of_being_put_in() {
        let mut events = Events::default();
        for (at_ns, client) in [(5, 0), (3, 1), (5, 2), (1, 3)] {
            events.at(at_ns, Event::Ask(client));
        }
        let order: Vec<_> = std::iter::from_fn(|| events.next()).collect();
        assert_eq!(order, [(1, Event::Ask(3)), (3, Event::Ask(1)), (5, Event::Ask(0)), (5, Event::Ask(2))]);
        assert_eq!(events.count(), 4);
    }

    #[test]
    fn numbers_of_requests_are_used_again() {
        let mut requests = Requests::default();
        let request = Request { client: 7, work: 0, born_ns: 0, behind: NONE };
        let first = requests.add(request);
        assert_eq!((requests.add(request), requests.len()), (1, 2));
        assert_eq!((requests.remove(first).client, requests.len(), requests.add(request)), (7, 1, first));
    }
}
