"""Programs that are not native: who turns them into something that the kernel can run."""
