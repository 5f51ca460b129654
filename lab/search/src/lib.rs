//! The search for a rate that is carried with a given loss.
