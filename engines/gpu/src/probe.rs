//! Whether a machine has a GPU at all, asked of the file system: opening drivers loads libraries and starts threads, which
//! is too much on the many machines that have none.

use std::path::{Path, PathBuf};

/// Where device nodes are looked for in place of `/`, for tests and for containers that keep them elsewhere.
const ROOT_VARIABLE: &str = "CIPHERMILL_DEVICE_ROOT";

/// Nodes of NVIDIA's drivers: of a card, of a machine under WSL, of a system on a chip.
const CUDA_NODES: [&str; 5] = ["dev/nvidiactl", "dev/nvidia0", "dev/dxg", "dev/nvhost-gpu", "dev/nvgpu"];

/// Nodes of other drivers that OpenCL runs on: AMD's, and those of GPUs of ARM's.
const OTHER_NODES: [&str; 2] = ["dev/kfd", "dev/mali0"];

/// Where the kernel puts the nodes of everything that renders, as `renderD128` and so on.
const RENDER_FOLDER: &str = "dev/dri";

/// The folder that device nodes are looked for in.
pub(crate) fn root() -> PathBuf {
    std::env::var_os(ROOT_VARIABLE).map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// Whether there may be a device for CUDA.
pub(crate) fn has_cuda(root: &Path) -> bool {
    // Elsewhere drivers have no nodes that could be asked for.
    !cfg!(target_os = "linux") || CUDA_NODES.iter().any(|node| root.join(node).exists())
}

/// Whether there may be a hardware device for OpenCL.
pub(crate) fn has_opencl(root: &Path) -> bool {
    let renders = || {
        let nodes = std::fs::read_dir(root.join(RENDER_FOLDER)).into_iter().flatten().flatten();
        nodes.into_iter().any(|node| node.file_name().as_encoded_bytes().starts_with(b"renderD"))
    };
    has_cuda(root) || OTHER_NODES.iter().any(|node| root.join(node).exists()) || renders()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_where_they_are() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |node: &str| {
            let path = root.path().join(node);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(&path, []).expect("made");
            path
        };
        assert!(!has_cuda(root.path()) && !has_opencl(root.path()), "an empty machine");
        put("dev/dri/card0");
        assert!(!has_opencl(root.path()), "a card that only shows pictures");
        for (node, cuda) in
            [("dev/dri/renderD128", false), ("dev/kfd", false), ("dev/nvidiactl", true), ("dev/dxg", true)]
        {
            let path = put(node);
            assert_eq!((has_cuda(root.path()), has_opencl(root.path())), (cuda, true), "{node}");
            std::fs::remove_file(path).expect("removed");
        }
    }
}
