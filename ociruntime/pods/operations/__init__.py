"""What is done to pods: preparing them, adding and removing apps, exec, attach, export, stop."""
