//! Pools of workers: one for each node of memory (NUMA), on its cores. A client is served by the pool of the node that its process runs on, so
//! that what both touch lies there. Requests of clients of different pools share no batch.

use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the kernel says which nodes there are (`Documentation/ABI/stable/sysfs-devices-node`).
const NODES: &str = "/sys/devices/system/node";

/// The cores of each pool: those of each node that this thread may use; none for the only pool of a machine with one node, whose workers
/// run wherever there is room.
pub(crate) fn of_nodes() -> Vec<Vec<usize>> {
    let may = sched_getaffinity(None).ok();
    let nodes = nodes_at(Path::new(NODES)).into_iter().map(|mut cores| {
        cores.retain(|core| may.is_none_or(|may| *core < CpuSet::MAX_CPU && may.is_set(*core)));
        cores
    });
    let nodes: Vec<Vec<usize>> = nodes.filter(|cores| !cores.is_empty()).collect();
    if nodes.len() > 1 { nodes } else { vec![Vec::new()] }
}

fn nodes_at(folder: &Path) -> Vec<Vec<usize>> {
    let Ok(online) = std::fs::read_to_string(folder.join("online")) else { return Vec::new() };
    let cores = |node: usize| {
        let list = std::fs::read_to_string(folder.join(format!("node{node}/cpulist"))).unwrap_or_default();
        cores_of(&list).unwrap_or_default()
    };
    cores_of(&online).unwrap_or_default().into_iter().map(cores).collect()
}

/// The cores of a list as the kernel writes it (`0-3,8`); `None` for what is no such list.
pub fn cores_of(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last >= CpuSet::MAX_CPU {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// How many of so many workers each pool has: by its cores, and one at least.
pub(crate) fn shares(workers: usize, pools: &[Vec<usize>]) -> Vec<usize> {
    let all: usize = pools.iter().map(Vec::len).sum::<usize>().max(1);
    let mut cores = 0;
    let mut given = 0;
    let share = |pool: &Vec<usize>| {
        cores += pool.len();
        let share = (workers * cores / all).saturating_sub(given);
        given += share;
        share.max(1)
    };
    if pools.len() == 1 { vec![workers.max(1)] } else { pools.iter().map(share).collect() }
}

/// Keeps the calling thread to these cores; to any if there are none.
pub(crate) fn stay_on(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
    if let Some(error) = (set.count() > 0).then(|| sched_setaffinity(None, &set).err()).flatten() {
        tracing::warn!("a worker does not stay on the cores {cores:?}: {error}");
    }
}

/// The core that a process's first thread ran on last (proc(5), `/proc/PID/stat`, field 39).
pub(crate) fn core_of_process(pid: i32) -> Option<usize> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    processor(&stat)
}

fn processor(stat: &str) -> Option<usize> {
    // The name before may have anything in it. The field behind is the third.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(39 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        for (list, cores) in [("0\n", vec![0]), ("0-2,7,9-10", vec![0, 1, 2, 7, 9, 10]), ("\n", vec![])] {
            assert_eq!(cores_of(list), Some(cores), "{list}");
        }
        for list in ["x", "3-1", "1-", "-1", "0-99999999", "1;2"] {
            assert_eq!(cores_of(list), None, "{list}");
        }
    }

    #[test]
    fn nodes_are_found_and_those_without_cores_are_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("online", "0-1,3\n");
        write("node0/cpulist", "0-1,4-5\n");
        write("node1/cpulist", "2-3,6-7\n");
        write("node3/cpulist", "\n");
        assert_eq!(nodes_at(folder.path()), [vec![0, 1, 4, 5], vec![2, 3, 6, 7], vec![]]);
        assert_eq!(nodes_at(Path::new("/nowhere")), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn every_pool_has_workers_by_its_cores() {
        let pools = |lens: &[usize]| -> Vec<Vec<usize>> { lens.iter().map(|len| (0..*len).collect()).collect() };
        for (workers, lens, wanted) in [
            (8, &[4, 4][..], vec![4, 4]),
            (6, &[8, 4], vec![4, 2]),
            (1, &[2, 2], vec![1, 1]),
            (5, &[2, 2], vec![2, 3]),
            (3, &[0], vec![3]),
            (0, &[0], vec![1]),
        ] {
            assert_eq!(shares(workers, &pools(lens)), wanted, "{workers}, {lens:?}");
        }
    }

    #[test]
    fn the_core_of_a_process_is_told() {
        let own = core_of_process(std::process::id() as i32).expect("a core");
        assert!(own < CpuSet::MAX_CPU);
        let fields: Vec<String> = (3..53).map(|field| field.to_string()).collect();
        assert_eq!(processor(&format!("7 (a) b) {}", fields.join(" "))), Some(39));
        assert_eq!(processor("7 (a) S 1 2"), None);
        assert_eq!(core_of_process(0), None);
    }
}
