//! Every scenario on the packet path in the kernel.

guideway_testbed::scenarios!(guideway_testbed::kernel::KernelForwarder);
