"""The process that watches over a pod: its apps, their output, what they are asked to do."""
