//! Messages as they come, RFC 4475 among them.

use super::*;
