//! Names of suites, directions and engine kinds: what parses is spelled back as it was, or in the one canonical way.

use ciphermill_contract::{Direction, EngineKind, Suite};

/// # Panics
/// When a spelling does not come back to the same thing.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(suite) = text.parse::<Suite>() {
        let spelled = suite.to_string();
        assert_eq!(spelled.parse::<Suite>(), Ok(suite), "{text}");
        assert_eq!(spelled.parse::<Suite>().map(|again| again.to_string()), Ok(spelled));
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let _ =
                (suite.input_len(direction), suite.tag_len(direction), suite.output_len(direction, 1 << 30, 1 << 30));
        }
    }
    if let Ok(direction) = text.parse::<Direction>() {
        assert_eq!(direction.to_string().parse::<Direction>().ok(), Some(direction));
    }
    if let Ok(kind) = text.parse::<EngineKind>() {
        assert_eq!(kind.to_string().parse::<EngineKind>().ok(), Some(kind));
    }
}

/// Inputs to begin with: every name.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    Suite::all().map(|suite| suite.to_string().into_bytes()).collect()
}
