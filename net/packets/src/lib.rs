//! Packets from and to rings, tunnels, files and memory.
