//! Every scenario on the packet path in the kernel, in native mode at both ends.

guideway_testbed::scenarios!(guideway_testbed::kernel::KernelForwarder);
