//! Packets from any bytes through associations of every transform: nothing leaves that was not sealed, and nothing twice.

#[path = "../../net/esp/tests/esp/anything.rs"]
mod anything;

/// # Panics
/// As the tests' own function does, which this is.
pub fn run(bytes: &[u8]) {
    anything::run(bytes);
}

/// Inputs to begin with: for each transform, honest packets, one again, and one that is damaged in each of the ways.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let transforms = ciphermill_esp::Transform::all().count() as u8;
    let of = |(transform, flags): (u8, u8)| {
        let mut seed = vec![0, transform, flags, 0, 3, 0, 0, 40, 0, 1, 60, 0, 0, 81, 0, 1, 99, 7];
        seed.extend([2, 0, 1, 7]);
        for way in 0..6 {
            seed.extend([3, 0, way, way, 0, 50, 0x80, 1, 2, 3, 4]);
        }
        seed.push(7);
        seed
    };
    (0..transforms).flat_map(|transform| [0, 0x26, 0x9d, 0x73].map(|flags| of((transform, flags)))).collect()
}
