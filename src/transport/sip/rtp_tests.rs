//! Packets whole and broken, and whose they are.

use super::*;
