"""config.json and host facts in, a flat list of operations out; pure, no system call."""
