//! Gives the shared library its name for the linker of programs: the number is that of `ABI_MAJOR` in `src/version.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libciphermill.so.0");
}
