//! Which attributes an object of a class and key type has.
