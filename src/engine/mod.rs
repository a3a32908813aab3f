//! The one loop, and the seams it drives.
